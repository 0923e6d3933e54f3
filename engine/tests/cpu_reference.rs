//! The CPU backend's logits and greedy tokens equal transformers', case by case.
//!
//! The numbers come from the fixtures beside the models (`format: "lean-ref-1"`): 20 largest logits after the
//! prompt, the argmax at every prompt position, 48 greedy tokens.

use lean_engine::backend::cpu::{CpuBackend, CpuOptions};
use lean_engine::backend::{
    Backend, Batch, Input, Logits, SamplerParams, Selection, Slot, SlotOutput, StateId, Ticket, WeightSource,
};
use lean_engine::gguf::Gguf;
use lean_engine::model::plan::TensorSpec;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::task::Poll;

/// What a logit may differ by.
const TOLERANCE: f32 = 1e-3;

/// Prompt tokens of a pass: some chunk ends within a page, some at its end.
const CHUNK: usize = 24;

struct Weights(Gguf);

impl WeightSource for Weights {
    fn read(&mut self, spec: &TensorSpec) -> lean_engine::Result<Cow<'_, [u8]>> {
        self.0.read(&spec.name)
    }
}

fn load(path: &Path, portable: bool) -> CpuBackend {
    let gguf = Gguf::open(path, false).unwrap();
    let plan = lean_engine::model::plan(&gguf).unwrap();
    let options = CpuOptions { threads: 2, portable, ..Default::default() };
    CpuBackend::load(plan, &mut Weights(gguf), &options, &mut |_, _| Ok(())).unwrap()
}

fn submit(backend: &CpuBackend, state: StateId, input: Input, logits: Logits) -> Ticket {
    backend.submit(Batch { slots: vec![Slot { state, input, logits, cancel: Default::default() }] }).unwrap()
}

fn take(backend: &CpuBackend, ticket: Ticket) -> SlotOutput {
    match backend.poll(ticket, 0).unwrap() {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the CPU's tickets are ready at once"),
    }
}

fn select(backend: &CpuBackend, ticket: Ticket) {
    let params = SamplerParams::default();
    backend.select(ticket, 0, Selection { params: &params, history: &[], random: 0, mask: None }).unwrap();
}

fn argmax(logits: &[f32]) -> u64 {
    let best = logits
        .iter()
        .enumerate()
        .fold((0, f32::NEG_INFINITY), |best, (i, &x)| if x > best.1 { (i, x) } else { best });
    best.0 as u64
}

fn check(backend: &CpuBackend, case: &serde_json::Value, vocab: usize) {
    let name = &case["name"];
    let ids: Vec<u32> = serde_json::from_value(case["input_ids"].clone()).unwrap();
    let state = backend.new_state().unwrap();
    let mut argmaxes = Vec::new();
    let mut last = Vec::new();
    for chunk in ids.chunks(CHUNK) {
        let ticket = submit(backend, state, Input::Tokens(chunk.to_vec()), Logits::All);
        let logits = take(backend, ticket).logits.unwrap();
        argmaxes.extend(logits.chunks(vocab).map(argmax));
        last = logits[logits.len() - vocab..].to_vec();
    }
    let wanted: Vec<u64> = serde_json::from_value(case["prompt_argmax"].clone()).unwrap();
    assert_eq!(argmaxes, wanted, "{name}: argmax of the prompt's positions");
    let top: Vec<(usize, f32)> = serde_json::from_value(case["prefill_top"].clone()).unwrap();
    for (id, want) in top {
        assert!((last[id] - want).abs() <= TOLERANCE, "{name}: logit {id} is {}, not {want}", last[id]);
    }
    // The prompt's last token again, its choice made by the backend and fed back without being read.
    assert_eq!(backend.truncate(state, 0), Ok(0));
    let mut ticket = submit(backend, state, Input::Tokens(ids), Logits::Last { read: false });
    let wanted: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
    let mut greedy = Vec::new();
    for _ in 0..wanted.len() {
        select(backend, ticket);
        let next = submit(backend, state, Input::Sampled(ticket, 0), Logits::Last { read: false });
        greedy.extend(take(backend, ticket).token);
        ticket = next;
    }
    backend.discard(ticket, 0);
    backend.free_state(state);
    assert_eq!(greedy, wanted, "{name}: greedy tokens");
}

/// Checks one fixture; the number of its cases.
fn check_all(fixture: &Path, model: &Path, portable: bool) -> usize {
    println!("{}, portable {portable}", fixture.display());
    let fixture: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    let vocab = lean_engine::model::plan(&Gguf::open(model, false).unwrap()).unwrap().vocab;
    let backend = load(model, portable);
    let cases = fixture["cases"].as_array().unwrap();
    cases.iter().for_each(|case| check(&backend, case, vocab));
    assert_eq!(backend.state_bytes(), 0);
    cases.len()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn small_models(portable: bool) {
    let dir = std::env::var_os("LEAN_REFERENCE_DIR")
        .map_or_else(|| repository().join("tests/fixtures/models"), PathBuf::from);
    let mut cases = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let fixture = entry.unwrap().path();
        let model = fixture.with_extension("gguf");
        if fixture.extension().is_some_and(|e| e == "json") && model.exists() {
            cases += check_all(&fixture, &model, portable);
        }
    }
    assert!(cases >= 10, "only {cases} cases in {}", dir.display());
}

#[test]
fn small_models_on_this_processor() {
    small_models(false);
}

#[test]
fn small_models_on_portable_code() {
    small_models(true);
}

#[test]
fn every_weight_type_is_in_a_fixture() {
    let mut missing = lean_engine::quant::DType::ALL.to_vec();
    for entry in std::fs::read_dir(repository().join("tests/fixtures/models")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "gguf") && path.with_extension("json").exists() {
            let gguf = Gguf::open(&path, false).unwrap();
            let matrices = gguf.tensors.values().filter(|t| t.dims.len() > 1);
            matrices.for_each(|t| missing.retain(|&dtype| Some(dtype) != t.dtype));
        }
    }
    assert_eq!(missing, [], "no model with such weights was compared");
}

/// `LEAN_VERIFY_FIXTURE=MODEL.gguf:FIXTURE.json`, for files too large to be fetched.
#[test]
fn a_given_model() {
    let Ok(pair) = std::env::var("LEAN_VERIFY_FIXTURE") else {
        println!("skipped: LEAN_VERIFY_FIXTURE=MODEL.gguf:FIXTURE.json is not set");
        return;
    };
    let (model, fixture) = pair.split_once(':').expect("MODEL.gguf:FIXTURE.json");
    assert!(check_all(Path::new(fixture), Path::new(model), false) > 0);
}

#[test]
fn the_real_model() {
    let dir =
        std::env::var_os("LEAN_MODEL_DIR").map_or_else(|| repository().join(".cache/models"), PathBuf::from);
    let model = dir.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.exists() {
        println!("skipped: {} is not there (scripts/fetch-model.sh fetches it)", model.display());
        return;
    }
    check_all(
        &repository().join("tests/fixtures/models/SmolLM2-135M-Instruct.Q4_1.given.json"),
        &model,
        false,
    );
}
