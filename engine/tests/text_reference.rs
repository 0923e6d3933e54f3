//! Token ids, decoded text and rendered conversations equal transformers', case by case.

use lean_engine::chat::{Chat, ChatTemplate};
use lean_engine::gguf::{Gguf, Value};
use lean_engine::tokenizer::{Specials, Tokenizer};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where downloaded models are.
fn model_dir() -> PathBuf {
    std::env::var_os("LEAN_MODEL_DIR").map_or_else(|| repository().join(".cache/models"), PathBuf::from)
}

struct Model {
    tokenizer: Tokenizer,
    template: ChatTemplate,
}

fn load(path: &Path) -> Model {
    let gguf = Gguf::open(path, false).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf.metadata).unwrap();
    let text = |id: Option<u32>| id.map(|id| tokenizer.decode(&[id], true)).unwrap_or_default();
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos_ids().first().copied()));
    let Some(Value::String(source)) = gguf.metadata.pairs.get("tokenizer.chat_template") else {
        panic!("{} has no chat template", path.display());
    };
    let template = ChatTemplate::new(source, &bos, &eos).unwrap();
    Model { tokenizer, template }
}

/// Checks one fixture; the number of its cases.
fn check(fixture: &Path, model: &Path) -> usize {
    let Model { tokenizer, template } = load(model);
    let fixture: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    let control = tokenizer.control_names();
    let cases = fixture["cases"].as_array().unwrap();
    for case in cases {
        let (name, text) = (&case["name"], case["text"].as_str().unwrap());
        let expected: Vec<u32> = serde_json::from_value(case["input_ids"].clone()).unwrap();
        let mut ids = Vec::new();
        if case["add_special"] == true && tokenizer.add_bos() {
            ids.extend(tokenizer.bos());
        }
        ids.extend(tokenizer.encode(text, Specials::Parse).unwrap());
        assert_eq!(ids, expected, "{name}: ids");
        assert_eq!(tokenizer.decode(&expected, true), case["decoded"].as_str().unwrap(), "{name}: decoded");
        let greedy: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
        assert_eq!(
            tokenizer.decode(&greedy, true),
            case["greedy_text"].as_str().unwrap(),
            "{name}: greedy text"
        );
        if let Some(messages) = case["messages"].as_array() {
            let rendered = template.render(&Chat::new(messages.clone()), &control).unwrap();
            assert_eq!(rendered.text, text, "{name}: rendered");
            assert_eq!(rendered.marker, None, "{name}");
            assert_eq!(
                tokenizer.encode_marked(&rendered.text, rendered.marker).unwrap(),
                tokenizer.encode(text, Specials::Parse).unwrap()
            );
        }
    }
    let eos: Vec<u32> = serde_json::from_value(fixture["eos_token_ids"].clone()).unwrap();
    assert_eq!(tokenizer.eos_ids()[..1], eos[..1]);
    cases.len()
}

#[test]
fn every_case_of_the_small_models() {
    let dir = std::env::var_os("LEAN_REFERENCE_DIR")
        .map_or_else(|| repository().join("tests/fixtures/models"), PathBuf::from);
    let mut cases = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let fixture = entry.unwrap().path();
        let model = fixture.with_extension("gguf");
        if fixture.extension().is_some_and(|e| e == "json") && model.exists() {
            println!("{}", fixture.display());
            cases += check(&fixture, &model);
        }
    }
    assert!(cases >= 10, "only {cases} cases in {}", dir.display());
}

#[test]
fn every_case_of_the_real_model() {
    let model = model_dir().join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.exists() {
        println!("skipped: {} is not there (scripts/fetch-model.sh fetches it)", model.display());
        return;
    }
    check(&repository().join("tests/fixtures/models/SmolLM2-135M-Instruct.Q4_1.given.json"), &model);
}
