//! LoRA adapters: equal to transformers with PEFT, in either format; added and taken away without a reload; part of
//! what a checkpoint is; refused by name where they do not fit.

mod common;

use common::{fixture, load, load_with, Rng, LLAMA};
use lean_engine::{
    Adapter, Block, Checkpoint, Error, LoadOptions, Model, Request, Restore, Session, SessionOptions, Type,
    TypeSource,
};
use std::path::PathBuf;

const TOLERANCE: f32 = 1e-3;
const QWEN2: &str = "qwen2-hd64-tied.s1.q4_k_m";

fn adapters() -> PathBuf {
    fixture("../adapters")
}

fn session(model: &Model, adapters: &[(Adapter, f32)]) -> Session {
    let mut s = model.session(SessionOptions::default()).unwrap();
    s.set_adapters(adapters).unwrap();
    s
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (i * 37) % 900).collect()
}

fn argmax(logits: &[f32]) -> u32 {
    let best =
        logits.iter().enumerate().fold((0, f32::NEG_INFINITY), |b, (i, &x)| if x > b.1 { (i, x) } else { b });
    best.0 as u32
}

/// Checks one adapter on its base model; the largest difference of a logit.
fn check(name: &str, path: PathBuf, portable: bool) -> f32 {
    let text = std::fs::read(adapters().join(format!("{name}.json"))).unwrap();
    let reference: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let gguf = reference["gguf"].as_str().unwrap().trim_end_matches(".gguf");
    let model = load_with(gguf, LoadOptions { threads: 2, portable, ..Default::default() });
    let adapter = model.load_adapter(&path).unwrap();
    let mut worst = 0.0f32;
    for case in reference["cases"].as_array().unwrap() {
        let at = format!("{} {}", path.display(), case["name"]);
        let ids: Vec<u32> = serde_json::from_value(case["input_ids"].clone()).unwrap();
        let mut s = session(&model, &[(adapter.clone(), 1.0)]);
        let all = s.forward_all(&ids).unwrap();
        let argmaxes: Vec<u32> = all.iter().map(|row| argmax(row)).collect();
        let wanted: Vec<u32> = serde_json::from_value(case["prompt_argmax"].clone()).unwrap();
        assert_eq!(argmaxes, wanted, "{at}: argmax of the prompt's positions");
        let mut last = all.last().unwrap().clone();
        let top: Vec<(usize, f32)> = serde_json::from_value(case["prefill_top"].clone()).unwrap();
        for (id, want) in top {
            worst = worst.max((last[id] - want).abs());
            assert!((last[id] - want).abs() <= TOLERANCE, "{at}: logit {id} is {}, not {want}", last[id]);
        }
        let greedy: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
        for (i, want) in greedy.iter().enumerate() {
            assert_eq!(argmax(&last), *want, "{at}: greedy token {i}");
            last = s.forward(&[*want]).unwrap();
        }
    }
    worst
}

#[test]
fn every_adapter_equals_transformers_with_peft() {
    for portable in [false, true] {
        for name in ["llama-all-r4", "qwen2-all-r4", "llama-rslora-patterns"] {
            let peft = check(name, adapters().join(name), portable);
            println!("{name}, peft, portable {portable}: {peft:.1e}");
            let gguf = adapters().join(format!("{name}.gguf"));
            if gguf.exists() {
                println!("{name}, gguf, portable {portable}: {:.1e}", check(name, gguf, portable));
            }
        }
    }
}

#[test]
fn both_formats_of_one_adapter_are_one_adapter() {
    for (base, name) in [(LLAMA, "llama-all-r4"), (QWEN2, "qwen2-all-r4")] {
        let model = load(base);
        let peft = model.load_adapter(adapters().join(name)).unwrap();
        let weights = model.load_adapter(adapters().join(name).join("adapter_model.safetensors")).unwrap();
        let gguf = model.load_adapter(adapters().join(format!("{name}.gguf"))).unwrap();
        assert_eq!(peft.fingerprint(), gguf.fingerprint());
        assert_eq!(peft.fingerprint(), weights.fingerprint());
        let info = peft.info();
        assert_eq!((info.name.as_str(), info.format, info.ranks), (name, "peft", (4, 4)));
        assert_eq!(info.matrices, 7 * model.info().layers);
        assert!(info.bytes > 0);
    }
}

#[test]
fn adapters_come_and_go_without_a_reload() {
    let model = load(LLAMA);
    let adapter = model.load_adapter(adapters().join("llama-all-r4")).unwrap();
    let ids = ids(70);
    let plain = bits(&session(&model, &[]).forward(&ids).unwrap());
    let mut s = session(&model, &[(adapter.clone(), 1.0)]);
    let adapted = bits(&s.forward(&ids).unwrap());
    assert_ne!(plain, adapted);
    // Half the scale, another result; what is pending and what runs again make no difference.
    s.truncate(69).unwrap();
    s.set_adapters(&[(adapter.clone(), 0.5)]).unwrap();
    let half = bits(&s.forward(&ids[69..]).unwrap());
    assert!(half != adapted && half != plain);
    assert_eq!(half, bits(&session(&model, &[(adapter.clone(), 0.5)]).forward(&ids).unwrap()));
    // Twice half of it is as good as all of it.
    let twice = session(&model, &[(adapter.clone(), 0.5), (adapter.clone(), 0.5)]).forward(&ids).unwrap();
    let worst = twice.iter().zip(&adapted).map(|(a, b)| (a - f32::from_bits(*b)).abs()).fold(0.0, f32::max);
    assert!(worst < TOLERANCE, "{worst}");
    s.truncate(69).unwrap();
    s.set_adapters(&[]).unwrap();
    assert!(s.adapters().is_empty());
    assert_eq!(bits(&s.forward(&ids[69..]).unwrap()), plain);
    // The same adapters again cost nothing.
    s.truncate(69).unwrap();
    s.set_adapters(&[(adapter.clone(), 1.0)]).unwrap();
    let before = model.stats().tokens;
    s.set_adapters(&[(adapter.clone(), 1.0)]).unwrap();
    assert_eq!(model.stats().tokens, before);
    assert_eq!(bits(&s.forward(&ids[69..]).unwrap()), adapted);
}

#[test]
fn forks_contexts_and_values_keep_the_adapter() {
    let model = load(LLAMA);
    let adapter = model.load_adapter(adapters().join("llama-all-r4")).unwrap();
    let ids = ids(80);
    let whole = bits(&session(&model, &[(adapter.clone(), 1.0)]).forward(&ids).unwrap());
    let mut s = session(&model, &[(adapter.clone(), 1.0)]);
    for chunk in ids[..60].chunks(7) {
        s.forward(chunk).unwrap();
    }
    let mut fork = s.fork().unwrap();
    assert_eq!(bits(&fork.forward(&ids[60..]).unwrap()), whole);
    s.set_context(&[Block::Tokens(ids[..79].to_vec())]).unwrap();
    assert_eq!(bits(&s.forward(&ids[79..]).unwrap()), whole);
    let text = TypeSource::Text { max_chars: None };
    let request = Request::new(Type::from_source(text).unwrap()).max_tokens(4);
    s.generate(&request).unwrap().finish().unwrap();
    assert_eq!(s.adapters().len(), 1);
}

#[test]
fn a_checkpoint_is_refused_without_its_adapter_by_name() {
    let (model, other) = (load(LLAMA), load(LLAMA));
    let adapter = model.load_adapter(adapters().join("llama-all-r4")).unwrap();
    let ids = ids(50);
    let mut s = session(&model, &[(adapter.clone(), 0.75)]);
    s.forward(&ids[..40]).unwrap();
    let live = s.checkpoint().unwrap();
    let stored = Checkpoint::from_bytes(&live.to_bytes().unwrap()).unwrap();
    let uses = stored.info().unwrap().adapters;
    assert_eq!(
        (uses[0].name.as_str(), uses[0].fingerprint, uses[0].scale),
        ("llama-all-r4", adapter.fingerprint(), 0.75)
    );
    let whole = bits(&s.forward(&ids[40..]).unwrap());
    for policy in [Restore::Exact, Restore::Convert, Restore::Reprefill] {
        for checkpoint in [&live, &stored] {
            match other.restore(checkpoint, policy).map(|_| ()) {
                Err(Error::Incompatible { what, found, .. }) => {
                    assert_eq!(what, "adapter");
                    assert!(found.contains("llama-all-r4"), "{found}");
                }
                other => panic!("{policy:?}: {other:?}"),
            }
        }
    }
    let there = other.load_adapter(adapters().join("llama-all-r4.gguf")).unwrap();
    for (model, checkpoint) in [(&model, &live), (&model, &stored), (&other, &live), (&other, &stored)] {
        for policy in [Restore::Exact, Restore::Reprefill] {
            let mut restored = model.restore(checkpoint, policy).unwrap();
            assert_eq!(restored.adapters()[0].1, 0.75);
            assert_eq!(bits(&restored.forward(&ids[40..]).unwrap()), whole);
        }
    }
    // A checkpoint without an adapter stays one without.
    let plain = session(&model, &[]).checkpoint().unwrap();
    assert!(model.restore(&plain, Restore::Exact).unwrap().adapters().is_empty());
    // Once nobody holds it, it is gone.
    drop(there);
    assert!(other.restore(&stored, Restore::Exact).is_err());
}

#[test]
fn an_adapter_of_another_model_or_an_impossible_scale_is_refused() {
    let (model, other) = (load(LLAMA), load(LLAMA));
    let adapter = model.load_adapter(adapters().join("llama-all-r4")).unwrap();
    let mut s = session(&other, &[]);
    s.forward(&ids(5)).unwrap();
    assert!(matches!(s.set_adapters(&[(adapter.clone(), 1.0)]), Err(Error::InvalidArgument { .. })));
    let mut s = session(&model, &[]);
    for scale in [f32::NAN, f32::INFINITY] {
        assert!(matches!(s.set_adapters(&[(adapter.clone(), scale)]), Err(Error::InvalidArgument { .. })));
    }
    assert!(s.adapters().is_empty());
    // Made for another family, as the file itself says; PEFT's do not say it, and these sizes are the same.
    let error = model.load_adapter(adapters().join("qwen2-all-r4.gguf")).unwrap_err();
    assert!(matches!(error, Error::UnsupportedModel { .. } | Error::BadModel { .. }), "{error}");
    assert!(matches!(model.load_adapter(adapters().join("none")), Err(Error::Io { .. })));
    assert!(matches!(model.load_adapter(adapters().join("none.gguf")), Err(Error::ModelIo { .. })));
}

fn config(extra: &str) -> String {
    format!(r#"{{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none"{extra}}}"#)
}

#[test]
fn what_is_not_supported_is_named() {
    let model = load(LLAMA);
    let weights = std::fs::read(adapters().join("llama-all-r4/adapter_model.safetensors")).unwrap();
    assert!(model.load_adapter_peft("a", config("").as_bytes(), &weights).is_ok());
    for (extra, named) in [
        (r#", "use_dora": true"#, "use_dora"),
        (r#", "modules_to_save": ["lm_head"]"#, "modules_to_save"),
        (r#", "fan_in_fan_out": true"#, "fan_in_fan_out"),
        (r#", "lora_bias": true"#, "lora_bias"),
        (r#", "bias": "all""#, "bias"),
        (r#", "layer_replication": [[0, 1]]"#, "layer_replication"),
        (r#", "trainable_token_indices": [1]"#, "trainable_token_indices"),
        (r#", "rank_pattern": {"q_proj": 8}"#, "q_proj"),
        (r#", "rank_pattern": {"q_proj|k_proj": 8}"#, "rank_pattern"),
        (r#", "alpha_pattern": {"q_proj": -1}"#, "alpha_pattern"),
        (r#", "alpha_pattern": 3"#, "alpha_pattern"),
        (r#", "r": 0"#, "r"),
        (r#", "r": 5"#, "tensor"),
        (r#", "lora_alpha": "eight""#, "lora_alpha"),
        (r#", "peft_type": "IA3""#, "peft_type"),
    ] {
        match model.load_adapter_peft("a", config(extra).as_bytes(), &weights) {
            Err(e @ (Error::UnsupportedModel { .. } | Error::BadModel { .. })) => {
                assert!(e.to_string().contains(named), "{extra}: {e}");
            }
            other => panic!("{extra}: {other:?}"),
        }
    }
    for config in ["", "[]", "{", "{}", &"[".repeat(100_000)] {
        assert!(matches!(
            model.load_adapter_peft("a", config.as_bytes(), &weights),
            Err(Error::BadModel { .. })
        ));
    }
}

/// A safetensors file of float32 tensors of zeros.
fn safetensors(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let (mut table, mut at) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let bytes = 4 * shape.iter().product::<usize>();
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [at, at + bytes]});
        table.insert(name.to_string(), entry);
        at += bytes;
    }
    let header = serde_json::Value::Object(table).to_string();
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.bytes());
    out.resize(out.len() + at, 0);
    out
}

#[test]
fn tensors_that_do_not_fit_are_named_with_their_shape() {
    let model = load(LLAMA);
    let q = "base_model.model.model.layers.0.self_attn.q_proj";
    const HIDDEN: usize = 128;
    let (a, b) = (format!("{q}.lora_A.weight"), format!("{q}.lora_B.weight"));
    type Tensors<'a> = Vec<(&'a str, &'a [usize])>;
    let cases: Vec<(Tensors<'_>, &str)> = vec![
        (vec![], "lora_A"),
        (vec![(&a, &[4, 1])], "4 x 1"),
        (vec![(&b, &[7, 4])], "7"),
        (vec![(&a, &[4, HIDDEN, 1])], "[4, 128, 1]"),
        (vec![(&a, &[0, HIDDEN])], "[0, 128]"),
        (
            vec![("base_model.model.model.layers.99.self_attn.q_proj.lora_A.weight", &[4, HIDDEN])],
            "blk.99.attn_q",
        ),
        (vec![("base_model.model.model.embed_tokens.lora_embedding_A", &[4, HIDDEN])], "embed"),
        (vec![("base_model.model.lm_head.lora_A.weight", &[4, HIDDEN])], "lm_head"),
        (vec![("base_model.model.lm_head.weight", &[4, HIDDEN])], "lm_head"),
        (vec![("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", &[4])], "DoRA"),
        (vec![("base_model.model.model.layers.0.self_attn.q_proj.bias", &[4])], "bias"),
        (
            vec![("base_model.model.model.layers.0.input_layernorm.lora_A.weight", &[4, HIDDEN])],
            "input_layernorm",
        ),
    ];
    for (tensors, named) in cases {
        match model.load_adapter_peft("a", config("").as_bytes(), &safetensors(&tensors)) {
            Err(e @ (Error::UnsupportedModel { .. } | Error::BadModel { .. })) => {
                assert!(e.to_string().contains(named), "{tensors:?}: {e}");
            }
            other => panic!("{tensors:?}: {other:?}"),
        }
    }
}

#[test]
fn damaged_adapters_are_errors() {
    let model = load(LLAMA);
    let name = "llama-all-r4";
    let gguf = std::fs::read(adapters().join(format!("{name}.gguf"))).unwrap();
    let weights = std::fs::read(adapters().join(name).join("adapter_model.safetensors")).unwrap();
    let config = config("");
    let mut rng = Rng(7);
    for i in 0..400 {
        // Damage to the tables; a changed number among the weights is another adapter, not an error.
        let (mut g, mut w) = (gguf.clone(), weights.clone());
        for bytes in [&mut g, &mut w] {
            let at = rng.below(bytes.len().min(6000));
            bytes[at] ^= 1 << rng.below(8);
            if i % 4 == 0 {
                bytes.truncate(rng.below(bytes.len()));
            }
        }
        // Whatever comes back, it comes back; most are errors.
        let found = model.load_adapter_gguf("damaged", g);
        let _ = model.load_adapter_peft("damaged", config.as_bytes(), &w);
        if i % 4 == 0 {
            assert!(found.is_err());
        }
    }
    for header in [0u64, 1, 1 << 20, u64::MAX, weights.len() as u64] {
        let mut w = weights.clone();
        w[..8].copy_from_slice(&header.to_le_bytes());
        let found = model.load_adapter_peft("damaged", config.as_bytes(), &w);
        assert!(matches!(found, Err(Error::BadModel { .. })), "{header}: {found:?}");
    }
    let huge = r#"{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
    let mut w = (huge.len() as u64).to_le_bytes().to_vec();
    w.extend(huge.bytes());
    assert!(model.load_adapter_peft("damaged", config.as_bytes(), &w).is_err());
    // NaN in a weight would poison every logit.
    let mut w = weights.clone();
    let end = w.len();
    w[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(model.load_adapter_peft("damaged", config.as_bytes(), &w), Err(Error::BadModel { .. })));
}
