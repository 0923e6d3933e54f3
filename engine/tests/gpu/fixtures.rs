//! Parity with transformers.

use crate::common::*;
use lean_engine::backend::gpu::GpuOptions;
use lean_engine::backend::{Backend, Input, Logits};

struct Case {
    name: String,
    ids: Vec<u32>,
    top: Vec<(usize, f32)>,
    argmax: Vec<usize>,
    greedy: Vec<u32>,
}

fn cases(stem: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(fixture(stem, "json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["format"], "lean-ref-1");
    let ids =
        |v: &serde_json::Value| v.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect();
    json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| Case {
            name: case["name"].as_str().unwrap().into(),
            ids: ids(&case["input_ids"]),
            top: case["prefill_top"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| (p[0].as_u64().unwrap() as usize, p[1].as_f64().unwrap() as f32))
                .collect(),
            argmax: ids(&case["prompt_argmax"]).into_iter().map(|i: u32| i as usize).collect(),
            greedy: ids(&case["greedy_ids"]),
        })
        .collect()
}

fn argmax(logits: &[f32]) -> usize {
    (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}

const BF16: &str = "gemma3-hd64-tied.s2.bf16";

/// Two quick cases: software Vulkan is too slow to run all of them of all models.
const SHORT: &[&str] = &["plain", "one_token"];

fn check(backend: &dyn Backend, stem: &str, wanted: &[&str]) {
    let mut worst = 0f32;
    let mut cases = cases(stem);
    cases.retain(|case| wanted.contains(&case.name.as_str()) || wanted.is_empty());
    assert!(cases.len() >= wanted.len() && !cases.is_empty());
    for case in cases {
        let state = backend.new_state().unwrap();
        let ticket = submit(backend, state, Input::Tokens(case.ids.clone()), Logits::All);
        let (tokens, prompt) = pipelined(backend, state, ticket, case.greedy.len());
        let all = prompt.logits.unwrap();
        let vocab = all.len() / case.ids.len();
        let last = &all[all.len() - vocab..];
        for (id, reference) in &case.top {
            let gap = (last[*id] - reference).abs();
            assert!(gap <= 1e-3, "{stem} {}: logit {id} is off by {gap}", case.name);
            worst = worst.max(gap);
        }
        let positions: Vec<usize> = all.chunks(vocab).map(argmax).collect();
        assert_eq!(positions, case.argmax, "{stem} {}: argmax of the prompt's positions", case.name);
        assert_eq!(tokens, case.greedy, "{stem} {}: greedy tokens", case.name);
        assert_eq!(backend.len(state).unwrap(), case.ids.len() + case.greedy.len() - 1);
        backend.free_state(state);
    }
    assert_eq!(backend.state_bytes(), 0, "{stem}: freed states leave nothing behind");
    println!("{stem}: worst top-20 difference {worst:e}");
}

macro_rules! fixtures {
    ($($name:ident: $stem:expr, $cases:expr;)*) => {$(
        #[test]
        fn $name() {
            if let Some(backend) = load($stem) {
                check(&backend, $stem, $cases);
            }
        }
    )*};
}

fixtures! {
    llama_hd64_q4_1: LLAMA, &[];
    llama_hd128_q4_0: "llama-hd128-untied.s1.q4_0", SHORT;
    llama_hd128_q4_k_m: "llama-hd128-untied.s1.q4_k_m", SHORT;
    lfm2_q4_0: LFM2, &["plain", "one_token", "chat"];
    llama_hd80_q4_0: "llama-hd80-untied.s2.q4_0", SHORT;
    llama_hd96_q5_0: "llama-hd96-tied.s2.q5_0", SHORT;
    llama3_rope_q8_0: "llama3rope-hd64-tied.s1.q8_0", SHORT;
    qwen2_q4_k_m: "qwen2-hd64-tied.s1.q4_k_m", SHORT;
    qwen2_q5_1: "qwen2-hd64-untied.s2.q5_1", SHORT;
    qwen3_q8_0: "qwen3-hd128-tied.s2.q8_0", SHORT;
    gemma3_hd256_q4_0: "gemma3-hd256-tied.s2.q4_0", SHORT;
    gemma3_hd64_bf16: BF16, SHORT;
}

#[test]
fn weights_wider_than_a_binding_are_bound_in_pieces() {
    if load(LLAMA).is_none() {
        return;
    }
    // The embedding takes 512 KiB: at this limit it lies in several pieces, cut within the vocabulary.
    let backend = load_with(BF16, &GpuOptions { max_binding: Some(200_000), ..any_adapter() }).unwrap();
    check(&backend, BF16, SHORT);
}

#[test]
fn a_device_without_subgroups_passes_too() {
    if load(LLAMA).is_none() {
        return;
    }
    let backend = load_with(LLAMA, &GpuOptions { no_subgroups: true, ..any_adapter() }).unwrap();
    check(&backend, LLAMA, SHORT);
}

#[test]
fn a_device_that_multiplies_bytes_passes_too() {
    if load(LLAMA).is_none() {
        return;
    }
    let backend = load_with(LLAMA, &GpuOptions { bytes: Some(true), ..any_adapter() }).unwrap();
    check(&backend, LLAMA, SHORT);
}
