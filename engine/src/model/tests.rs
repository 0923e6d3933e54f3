//! Plans of the fixtures, and what is refused at open.

use super::plan::{Activation, Attention, Mixer, Plan, RopeStyle};
use super::{plan, ModelInfo};
use crate::error::{Error, Result};
use crate::gguf::forge::Writer;
use crate::gguf::{Gguf, Value};
use crate::quant::DType;
use std::path::PathBuf;

fn fixture(name: &str) -> Gguf {
    let path = PathBuf::from(format!("{}/../tests/fixtures/models/{name}.gguf", env!("CARGO_MANIFEST_DIR")));
    Gguf::open(&path, false).unwrap_or_else(|e| panic!("{e}"))
}

fn attentions(plan: &Plan) -> Vec<&Attention> {
    plan.layers
        .iter()
        .filter_map(|l| match &l.mixer {
            Mixer::Attention(a) => Some(a),
            Mixer::ShortConv(_) => None,
        })
        .collect()
}

#[test]
fn the_fixtures_have_the_plans_of_their_models() {
    // name, layers, heads, kv heads, head size, ffn, tied, rope base, eps
    let table = [
        ("llama-hd64-tied.s1.q4_1", 2, 4, 2, 64, 512, true, 1e5, 1e-5),
        ("llama-hd128-untied.s1.q4_0", 2, 2, 1, 128, 512, false, 1e4, 1e-6),
        ("llama-hd128-untied.s1.q4_k_m", 2, 2, 1, 128, 512, false, 1e4, 1e-6),
        ("lfm2-hd64-tied.s1.q4_0", 4, 4, 2, 64, 256, true, 1e6, 1e-5),
    ];
    for (name, layers, heads, kv, head_dim, ffn, tied, base, eps) in table {
        let g = fixture(name);
        let p = plan(&g).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            (p.layers.len(), p.hidden, p.vocab, p.context_length),
            (layers, 256, 1024, 2048),
            "{name}"
        );
        assert_eq!(p.head == p.embedding, tied, "{name}");
        assert_eq!(p.embedding_scale, 1.0, "{name}");
        assert_eq!(p.tensors.len(), g.tensors.len(), "{name}: every tensor has its place");
        assert_eq!(p.final_norm.eps, eps, "{name}");
        for layer in &p.layers {
            assert_eq!(p.tensor(layer.ffn.gate.weight).rows, ffn, "{name}");
            assert_eq!(layer.ffn.activation, Activation::Silu, "{name}");
        }
        let lfm2 = name.starts_with("lfm2");
        for a in attentions(&p) {
            assert_eq!(
                (a.n_heads, a.n_kv_heads, a.head_dim, a.window),
                (heads, kv, head_dim, None),
                "{name}"
            );
            assert_eq!(a.rope.style, if lfm2 { RopeStyle::Halves } else { RopeStyle::Adjacent }, "{name}");
            assert_eq!(a.q_norm.is_some() && a.k_norm.is_some(), lfm2, "{name}");
            assert_eq!(a.scale, 1.0 / (head_dim as f32).sqrt(), "{name}");
            assert_eq!(a.rope.inv_freq.len(), head_dim / 2, "{name}");
            let last = f64::powf(base, -(head_dim as f64 - 2.0) / head_dim as f64);
            let relative = f64::from(a.rope.inv_freq[head_dim / 2 - 1]) / last - 1.0;
            assert!(a.rope.inv_freq[0] == 1.0 && relative.abs() < 3e-7, "{name}: {relative}");
        }
    }
}

#[test]
fn lfm2_mixes_convolution_and_attention() {
    let p = plan(&fixture("lfm2-hd64-tied.s1.q4_0")).unwrap();
    let kinds: Vec<_> = p.layers.iter().map(|l| matches!(l.mixer, Mixer::ShortConv(_))).collect();
    assert_eq!(kinds, [true, true, false, true]);
    let Mixer::ShortConv(conv) = &p.layers[0].mixer else { panic!("a convolution") };
    assert_eq!((conv.channels, conv.taps), (256, 3));
    let kernel = p.tensor(conv.kernel);
    assert_eq!((kernel.name.as_str(), kernel.rows, kernel.cols), ("blk.0.shortconv.conv.weight", 256, 3));
    assert_eq!(p.tensor(p.final_norm.weight).name, "token_embd_norm.weight");
}

#[test]
fn tensors_come_in_the_order_of_the_file() {
    for name in ["llama-hd128-untied.s1.q4_k_m", "lfm2-hd64-tied.s1.q4_0"] {
        let g = fixture(name);
        let offsets: Vec<_> = plan(&g).unwrap().tensors.iter().map(|t| g.tensors[&t.name].offset).collect();
        assert!(offsets.is_sorted(), "{name}");
    }
}

#[test]
fn the_summary_counts_what_is_there() {
    let info = ModelInfo::read(&fixture("llama-hd128-untied.s1.q4_k_m")).unwrap();
    assert_eq!(info.architecture, "llama");
    assert_eq!(info.name.as_deref(), Some("llama-hd128-untied"));
    assert_eq!(info.context_length, Some(2048));
    assert_eq!(info.main_type.as_deref(), Some("Q4_K"));
    assert_eq!(info.types["F32"], (5, 5 * 256 * 4));
    // Embedding and head, then per layer q, k, v, o and the feed-forward, then five norms.
    let matrices = 2 * 1024 * 256 + 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256);
    assert_eq!(info.parameters, matrices + 5 * 256);
}

/// A float32 decoder: width 8, two heads of 4 with one key/value head, 16 wide inside, 10 tokens.
fn decoder(arch: &str, layers: u64) -> Writer {
    let mut w = Writer::new();
    w.str("general.architecture", arch);
    let keys = [
        ("block_count", layers),
        ("context_length", 64),
        ("embedding_length", 8),
        ("feed_forward_length", 16),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ];
    for (key, n) in keys {
        w.uint(&format!("{arch}.{key}"), n);
    }
    w.set(&format!("{arch}.attention.layer_norm_rms_epsilon"), Value::Float(1e-5));
    w.zeros("token_embd.weight", &[8, 10]);
    w.zeros("output_norm.weight", &[8]);
    let tensors: [(&str, &[u64]); 9] = [
        ("attn_norm", &[8]),
        ("attn_q", &[8, 8]),
        ("attn_k", &[8, 4]),
        ("attn_v", &[8, 4]),
        ("attn_output", &[8, 8]),
        ("ffn_norm", &[8]),
        ("ffn_gate", &[8, 16]),
        ("ffn_up", &[8, 16]),
        ("ffn_down", &[16, 8]),
    ];
    for layer in 0..layers {
        for (name, dims) in tensors {
            w.zeros(&format!("blk.{layer}.{name}.weight"), dims);
        }
    }
    w
}

fn llama() -> Writer {
    decoder("llama", 1)
}

fn qwen2() -> Writer {
    let mut w = decoder("qwen2", 1);
    for (part, n) in [("q", 8), ("k", 4), ("v", 4)] {
        w.zeros(&format!("blk.0.attn_{part}.bias"), &[n]);
    }
    w
}

/// Gives the heads of a layer `d` elements, whatever the width says.
fn set_heads(w: &mut Writer, arch: &str, layer: u64, d: u64) {
    w.uint(&format!("{arch}.attention.key_length"), d);
    w.uint(&format!("{arch}.attention.value_length"), d);
    let tensors: [(&str, &[u64]); 6] = [
        ("q", &[8, 2 * d]),
        ("k", &[8, d]),
        ("v", &[8, d]),
        ("output", &[2 * d, 8]),
        ("q_norm", &[d]),
        ("k_norm", &[d]),
    ];
    for (part, dims) in tensors {
        w.zeros(&format!("blk.{layer}.attn_{part}.weight"), dims);
    }
}

/// Heads of 6 elements, which the width of 8 does not give.
fn qwen3() -> Writer {
    let mut w = decoder("qwen3", 1);
    set_heads(&mut w, "qwen3", 0, 6);
    w
}

fn gemma3(layers: u64) -> Writer {
    let mut w = decoder("gemma3", layers);
    w.uint("gemma3.attention.sliding_window", 16);
    for layer in 0..layers {
        for (part, n) in
            [("attn_q_norm", 4), ("attn_k_norm", 4), ("post_attention_norm", 8), ("post_ffw_norm", 8)]
        {
            w.zeros(&format!("blk.{layer}.{part}.weight"), &[n]);
        }
    }
    w
}

fn plan_of(w: &Writer) -> Result<Plan> {
    plan(&Gguf::from_bytes(w.finish().into())?)
}

fn floats(w: &mut Writer, name: &str, values: &[f32]) {
    w.zeros(name, &[values.len() as u64]);
    w.tensors.last_mut().unwrap().3 = values.iter().flat_map(|x| x.to_le_bytes()).collect();
}

#[test]
fn rope_keys_and_factors_shape_the_frequencies() {
    let freqs = |change: fn(&mut Writer)| {
        let mut w = llama();
        change(&mut w);
        attentions(&plan_of(&w).unwrap())[0].rope.inv_freq.to_vec()
    };
    assert_eq!(freqs(|_| {}), [1.0, 0.01]);
    assert_eq!(freqs(|w| w.set("llama.rope.freq_base", Value::Float(16.0))), [1.0, 0.25]);
    assert_eq!(freqs(|w| floats(w, "rope_freqs.weight", &[2.0, 8.0])), [0.5, 0.01 / 8.0]);
    assert_eq!(freqs(|w| w.uint("llama.rope.dimension_count", 2)), [1.0]);
    let linear = |w: &mut Writer| {
        w.str("llama.rope.scaling.type", "linear");
        w.set("llama.rope.scaling.factor", Value::Float(4.0));
    };
    assert_eq!(freqs(linear), [0.25, 0.0025]);
}

#[test]
fn qwen2_has_biases_and_rotates_halves() {
    let p = plan_of(&qwen2()).unwrap();
    let a = attentions(&p)[0];
    let names = [&a.q, &a.k, &a.v].map(|l| p.tensor(l.bias.unwrap()).name.as_str());
    assert_eq!(names, ["blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"]);
    assert_eq!((a.o.bias, a.rope.style, a.q_norm.is_some()), (None, RopeStyle::Halves, false));
}

#[test]
fn qwen3_has_head_norms_and_its_own_head_size() {
    let p = plan_of(&qwen3()).unwrap();
    let a = attentions(&p)[0];
    assert_eq!((a.head_dim, a.scale, a.rope.style), (6, 1.0 / 6f32.sqrt(), RopeStyle::Halves));
    assert_eq!(p.tensor(a.q_norm.as_ref().unwrap().weight).name, "blk.0.attn_q_norm.weight");
    assert_eq!(p.tensor(a.k_norm.as_ref().unwrap().weight).name, "blk.0.attn_k_norm.weight");
}

#[test]
fn gemma3_alternates_windows_and_rope_bases() {
    let mut w = gemma3(12);
    w.set("gemma3.rope.scaling.factor", Value::Float(8.0));
    w.str("gemma3.rope.scaling.type", "linear");
    let p = plan_of(&w).unwrap();
    assert_eq!(p.embedding_scale, 8f32.sqrt());
    for (i, a) in attentions(&p).into_iter().enumerate() {
        // The base is 1e6 for the whole context and 1e4 within a window; only the former is stretched.
        let (window, freqs) = if i % 6 == 5 { (None, [0.125, 0.000125]) } else { (Some(16), [1.0, 0.01]) };
        assert_eq!((a.window, &*a.rope.inv_freq, a.scale), (window, &freqs[..], 0.5), "layer {i}");
    }
    let layer = &p.layers[0];
    assert_eq!(layer.ffn.activation, Activation::GeluTanh);
    let post =
        [&layer.mixer_post_norm, &layer.ffn_post_norm].map(|n| &p.tensor(n.as_ref().unwrap().weight).name);
    assert_eq!(post, ["blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight"]);
}

#[test]
fn gemma3_scales_scores_by_the_head_except_in_the_27b_model() {
    for (layers, expected) in [(1, 1.0 / 6f32.sqrt()), (62, 1.0 / 4f32.sqrt())] {
        let mut w = gemma3(layers);
        (0..layers).for_each(|layer| set_heads(&mut w, "gemma3", layer, 6));
        assert_eq!(attentions(&plan_of(&w).unwrap())[0].scale, expected, "{layers} layers");
    }
}

#[test]
fn what_a_family_always_has_may_not_be_missing() {
    let table = [
        (qwen2(), "blk.0.attn_k.bias"),
        (qwen3(), "blk.0.attn_q_norm.weight"),
        (gemma3(1), "blk.0.post_ffw_norm.weight"),
    ];
    for (mut w, name) in table {
        assert!(plan_of(&w).is_ok(), "{name}");
        w.tensors.retain(|t| t.0 != name);
        let error = plan_of(&w).unwrap_err();
        assert!(error.to_string().contains(&format!("tensor {name}: missing")), "{error}");
    }
    let mut w = gemma3(1);
    w.set("gemma3.final_logit_softcapping", Value::Float(30.0));
    assert!(plan_of(&w).unwrap_err().to_string().contains("final_logit_softcapping"));
}

#[test]
fn biases_are_taken_where_the_file_has_them() {
    let mut w = llama();
    w.zeros("blk.0.attn_q.bias", &[8]);
    let p = plan_of(&w).unwrap();
    let a = attentions(&p)[0];
    assert_eq!(p.tensor(a.q.bias.unwrap()).name, "blk.0.attn_q.bias");
    assert_eq!(a.k.bias, None);
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    type Change = fn(&mut Writer);
    let unsupported: &[(Change, &[&str])] = &[
        (
            |w| w.str("general.architecture", "rwkv7"),
            &["architecture rwkv7", "gemma3, lfm2, llama, qwen2, qwen3"],
        ),
        (|w| w.tensors[1].2 = 24, &["architecture llama", "output_norm.weight", "I8", "Q4_K"]),
        (|w| w.tensors[1].2 = 1, &["output_norm.weight", "its type is F16; F32 is needed"]),
        (|w| w.zeros("blk.0.attn_mystery.weight", &[8]), &["blk.0.attn_mystery.weight", "no place for it"]),
        (|w| w.zeros("blk.1.attn_norm.weight", &[8]), &["blk.1.attn_norm.weight", "no place for it"]),
        (|w| w.uint("llama.expert_count", 8), &["llama.expert_count", "mixtures"]),
        (|w| w.uint("llama.pooling_type", 3), &["architecture llama", "llama.pooling_type", "embeddings"]),
        (|w| w.uint("llama.attention.sliding_window", 16), &["llama.attention.sliding_window"]),
        (|w| w.uint("llama.attention.value_length", 8), &["llama.attention.value_length"]),
        (|w| w.str("llama.rope.scaling.type", "yarn"), &["llama.rope.scaling.type", "yarn"]),
    ];
    let bad: &[(Change, &[&str])] = &[
        (|w| w.pairs.retain(|p| p.0 != "general.architecture"), &["general.architecture", "missing"]),
        (
            |w| w.tensors.retain(|t| t.0 != "blk.0.ffn_up.weight"),
            &["llama", "blk.0.ffn_up.weight", "missing"],
        ),
        (|w| w.tensors.retain(|t| t.0 != "token_embd.weight"), &["token_embd.weight", "missing"]),
        (|w| w.zeros("blk.0.attn_k.weight", &[8, 8]), &["blk.0.attn_k.weight", "[8, 8], expected [8, 4]"]),
        (|w| w.zeros("blk.0.attn_k.weight", &[8, 4, 2]), &["blk.0.attn_k.weight", "one or two dimensions"]),
        (|w| w.zeros("output.weight", &[8, 11]), &["output.weight", "[8, 11], expected [8, 10]"]),
        (|w| floats(w, "rope_freqs.weight", &[1.0]), &["rope_freqs.weight", "expected [2]"]),
        (
            |w| floats(w, "rope_freqs.weight", &[1.0, 0.0]),
            &["rope_freqs.weight", "0 is not a number above zero"],
        ),
        (|w| w.uint("llama.block_count", 2), &["blk.1.attn_norm.weight", "missing"]),
        (|w| w.uint("llama.block_count", 0), &["llama.block_count", "0 is not within 1"]),
        (|w| w.uint("llama.block_count", u32::MAX.into()), &["llama.block_count", "4294967295"]),
        (|w| w.uint("llama.attention.head_count", 0), &["llama.attention.head_count", "0 is not within"]),
        (
            |w| w.uint("llama.attention.head_count_kv", 0),
            &["head_count_kv", "0 key/value heads do not divide 2"],
        ),
        (
            |w| w.uint("llama.attention.head_count_kv", 3),
            &["head_count_kv", "3 key/value heads do not divide 2"],
        ),
        (|w| w.set("llama.attention.head_count_kv", Value::Ints(vec![1, 1])), &["2 numbers for 1 layers"]),
        (|w| w.set("llama.attention.head_count_kv", Value::Ints(vec![-1])), &["-1 is negative"]),
        (|w| w.uint("llama.attention.head_count", 8), &["a head of 1 elements"]),
        (|w| w.str("llama.context_length", "long"), &["llama.context_length", "found a string"]),
        (|w| w.set("llama.attention.layer_norm_rms_epsilon", Value::Float(f64::NAN)), &["epsilon", "NaN"]),
        (|w| w.set("llama.rope.freq_base", Value::Float(-1.0)), &["llama.rope.freq_base", "-1"]),
        (
            |w| w.uint("llama.rope.dimension_count", 6),
            &["llama.rope.dimension_count", "6 is not within 2 to 4"],
        ),
        (|w| w.uint("llama.rope.dimension_count", 3), &["llama.rope.dimension_count", "odd"]),
        (
            |w| w.set("tokenizer.ggml.tokens", Value::Strings(vec!["t".into(); 11])),
            &["token_embd.weight", "10 rows for 11 tokens"],
        ),
    ];
    assert!(plan_of(&llama()).is_ok());
    for (i, (change, parts)) in unsupported.iter().chain(bad).enumerate() {
        let mut w = llama();
        change(&mut w);
        let error = plan_of(&w).expect_err(&format!("{parts:?}"));
        let right = match error {
            Error::UnsupportedModel { .. } => i < unsupported.len(),
            Error::BadModel { .. } => i >= unsupported.len(),
            _ => false,
        };
        assert!(right, "{error:?}");
        for part in *parts {
            assert!(error.to_string().contains(part), "{error} does not say {part:?}");
        }
    }
}

#[test]
fn types_are_kept_as_the_file_has_them() {
    let p = plan(&fixture("llama-hd128-untied.s1.q4_k_m")).unwrap();
    let types = [p.embedding, p.head, attentions(&p)[0].q.weight, attentions(&p)[1].v.weight]
        .map(|t| p.tensor(t).dtype);
    assert_eq!(types, [DType::Q4_K, DType::Q6_K, DType::Q4_K, DType::Q6_K]);
}
