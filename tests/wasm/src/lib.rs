//! Runs a fixture through the engine and says what came out, bit for bit: the same code in WebAssembly and
//! natively, so that the two reports can be compared as text.

use lean_engine::tokenizer::Specials;
use lean_engine::{Block, Checkpoint, LoadOptions, Model, Request, Restore, SessionOptions, Type};
use serde_json::{json, Value};
use wasm_bindgen::prelude::{wasm_bindgen, JsError};

/// Every leaf is bounded, since a random model never ends a string by itself.
const TYPE: &str =
    r#"{"id": "0 <= number.integer <= 999", "name": "string < 16", "tags?": "(string < 16)[] <= 2"}"#;

/// What the engine makes of a fixture of form `lean-ref-1` with the model in `model`, as JSON.
#[wasm_bindgen]
pub fn run(model: Vec<u8>, fixture: &str) -> Result<String, JsError> {
    report(model, fixture).map(|report| report.to_string()).map_err(|e| JsError::new(&e))
}

/// The same as a value: for each case its ids, greedy tokens and a digest of every logit; for the model a
/// typed value and a digest of a checkpoint. Natively on the portable kernels, in WebAssembly on those for its vectors.
pub fn report(model: Vec<u8>, fixture: &str) -> Result<Value, String> {
    let fixture: Value = serde_json::from_str(fixture).map_err(|e| e.to_string())?;
    let portable = cfg!(not(target_arch = "wasm32"));
    let options = LoadOptions { portable, threads: 1, ..LoadOptions::default() };
    let model = Model::from_bytes(model, options).map_err(|e| e.to_string())?;
    let cases = fixture["cases"].as_array().ok_or("the fixture has no cases")?;
    let n_gen = fixture["n_gen"].as_u64().ok_or("the fixture has no n_gen")? as usize;
    let cases: lean_engine::Result<Vec<Value>> =
        cases.iter().map(|case| run_case(&model, case, n_gen)).collect();
    let cases = cases.map_err(|e| e.to_string())?;
    let value = typed_value(&model).map_err(|e| e.to_string())?;
    Ok(json!({ "class": model.info().exactness_class, "cases": cases, "typed": value }))
}

fn run_case(model: &Model, case: &Value, n_gen: usize) -> lean_engine::Result<Value> {
    let mut ids = model.encode(case["text"].as_str().unwrap_or_default(), Specials::Parse)?;
    if let (Some(true), true, Some(bos)) =
        (case["add_special"].as_bool(), model.tokenizer().add_bos(), model.info().bos)
    {
        ids.insert(0, bos);
    }
    let mut session = model.session(SessionOptions::default())?;
    let mut digest = Digest::new();
    let mut logits = session.forward(&ids)?;
    let mut greedy = Vec::with_capacity(n_gen);
    loop {
        logits.iter().for_each(|x| digest.add(&x.to_bits().to_le_bytes()));
        greedy.push(best(&logits));
        if greedy.len() == n_gen {
            break;
        }
        logits = session.forward(&greedy[greedy.len() - 1..])?;
    }
    Ok(json!({ "name": case["name"], "input_ids": ids, "greedy_ids": greedy, "logits": digest.hex() }))
}

/// A value under an exact mask, and again from the bytes of a checkpoint taken before it.
fn typed_value(model: &Model) -> lean_engine::Result<Value> {
    let request = Request::new(Type::expr(TYPE)?).max_tokens(200).sample(0.8, 7);
    let mut session = model.session(SessionOptions::default())?;
    session.append(&[Block::text("Invent a user.")])?;
    let bytes = session.checkpoint()?.to_bytes()?;
    let value = session.generate(&request)?.finish()?.text;
    let checkpoint = Checkpoint::from_bytes(&bytes)?;
    let again = model.restore(&checkpoint, Restore::Exact)?.generate(&request)?.finish()?.text;
    let mut digest = Digest::new();
    digest.add(&bytes);
    Ok(json!({ "value": value, "restored": again, "checkpoint": digest.hex() }))
}

/// The largest logit, the lowest id among equals.
fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// 64-bit FNV-1a: enough to notice a single different bit, and nothing to depend on.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}
