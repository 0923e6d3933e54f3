//! Ids of texts on which tokenizers differ, against transformers' (`tests/reference/tokenizer_goldens.py`).

use lean_engine::gguf::{Gguf, Metadata, Value};
use lean_engine::tokenizer::{Specials, Tokenizer};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("tests/fixtures/tokenizer").join(name)).unwrap()
}

/// The metadata that a GGUF of the same tokenizer has.
fn as_gguf(file: &Json, pre: &str) -> Metadata {
    let model = &file["model"];
    let mut tokens: Vec<(u64, String, i64)> = model["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(token, id)| (id.as_u64().unwrap(), token.clone(), 1))
        .collect();
    for added in file["added_tokens"].as_array().unwrap() {
        let kind = if added["special"] == true { 3 } else { 4 };
        let id = added["id"].as_u64().unwrap();
        tokens.retain(|t| t.0 != id);
        tokens.push((id, added["content"].as_str().unwrap().into(), kind));
    }
    tokens.sort();
    let merges = model["merges"].as_array().unwrap().iter().map(|merge| match merge {
        Json::String(line) => line.clone(),
        pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
    });
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value| metadata.pairs.insert(format!("tokenizer.ggml.{key}"), value);
    set("merges", Value::Strings(merges.collect()));
    set("token_type", Value::Ints(tokens.iter().map(|t| t.2).collect()));
    set("tokens", Value::Strings(tokens.into_iter().map(|t| t.1).collect()));
    set("model", Value::String("gpt2".into()));
    set("pre", Value::String(pre.into()));
    metadata
}

/// The metadata of a GGUF of SentencePiece's kind, whose tokens, types and scores stand beside the goldens.
fn pieces_as_gguf(goldens: &Json) -> Metadata {
    let list = |key: &str| goldens[key].as_array().unwrap();
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value| metadata.pairs.insert(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::String("llama".into()));
    set("pre", Value::String("default".into()));
    set("tokens", Value::Strings(list("tokens").iter().map(|t| t.as_str().unwrap().into()).collect()));
    set("token_type", Value::Ints(list("types").iter().map(|t| t.as_i64().unwrap()).collect()));
    set("scores", Value::Floats(list("scores").iter().map(|s| s.as_f64().unwrap() as f32).collect()));
    set("bos_token_id", Value::Uint(2));
    set("eos_token_id", Value::Uint(1));
    set("unknown_token_id", Value::Uint(3));
    set("add_space_prefix", Value::Bool(false));
    metadata
}

/// Says which cases differ.
fn check(tokenizer: &Tokenizer, goldens: &Json, what: &str) {
    let cases = goldens["cases"].as_array().unwrap();
    assert!(cases.len() > 200);
    let mut wrong = 0;
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let ids = |key: &str| serde_json::from_value::<Vec<u32>>(case[key].clone()).unwrap();
        let parsed = tokenizer.encode(text, Specials::Parse).unwrap();
        let plain = tokenizer.encode(text, Specials::Text).unwrap();
        let decoded = tokenizer.decode(&ids("ids"), false);
        let equal =
            parsed == ids("ids") && plain == ids("plain") && decoded == case["decoded"].as_str().unwrap();
        if !equal {
            wrong += 1;
            let show = |ids: &[u32]| ids.iter().map(|&id| tokenizer.decode(&[id], true)).collect::<Vec<_>>();
            println!("{what}: {text:?}\n  parsed {:?}\n  expect {:?}", show(&parsed), show(&ids("ids")));
            println!("  plain  {:?}\n  expect {:?}", show(&plain), show(&ids("plain")));
            println!("  decoded {decoded:?}\n  expect  {}", case["decoded"]);
        }
    }
    for case in goldens["decodings"].as_array().unwrap() {
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(tokenizer.decode(&ids, true), case["kept"].as_str().unwrap(), "{what}: {ids:?}");
        assert_eq!(tokenizer.decode(&ids, false), case["left_out"].as_str().unwrap(), "{what}: {ids:?}");
    }
    assert_eq!(wrong, 0, "{what}: {wrong} of {} texts differ", cases.len());
}

#[test]
fn every_family_from_both_kinds_of_file() {
    for family in ["gpt-2", "smollm", "llama-bpe", "lfm2", "qwen2", "flags"] {
        let goldens: Json = serde_json::from_slice(&fixture(&format!("{family}.json"))).unwrap();
        let json = fixture(&format!("{family}.tokenizer.json"));
        let from_json = Tokenizer::from_json(&json).unwrap();
        check(&from_json, &goldens, family);
        // No GGUF says what this one does.
        if family == "flags" {
            continue;
        }
        let from_gguf =
            Tokenizer::from_gguf(&as_gguf(&serde_json::from_slice(&json).unwrap(), family)).unwrap();
        check(&from_gguf, &goldens, &format!("{family} as GGUF"));
        assert_eq!(from_json.vocab_size(), from_gguf.vocab_size());
        for id in 0..from_json.vocab_size() as u32 + 2 {
            assert_eq!(from_json.bytes(id), from_gguf.bytes(id));
            assert_eq!(from_json.is_control(id), from_gguf.is_control(id));
        }
        let named = |id: Option<u32>| id.map(|id| from_json.decode(&[id], true));
        let bos = matches!(family, "llama-bpe" | "lfm2").then(|| "<|im_start|>".to_owned());
        assert_eq!(named(from_json.bos()), bos);
        assert_eq!(from_json.add_bos(), bos.is_some());
        let ends: Vec<_> = from_json.eos_ids().iter().map(|&id| from_json.decode(&[id], true)).collect();
        assert_eq!(ends, ["<|endoftext|>", "<|im_end|>"]);
    }
}

#[test]
fn sentencepiece_from_both_kinds_of_file() {
    let goldens: Json = serde_json::from_slice(&fixture("gemma.json")).unwrap();
    let from_json = Tokenizer::from_json(&fixture("gemma.tokenizer.json")).unwrap();
    let from_gguf = Tokenizer::from_gguf(&pieces_as_gguf(&goldens)).unwrap();
    check(&from_json, &goldens, "gemma");
    check(&from_gguf, &goldens, "gemma as GGUF");
    for id in 0..from_json.vocab_size() as u32 + 2 {
        assert_eq!(from_json.bytes(id), from_gguf.bytes(id));
        assert_eq!(from_json.is_control(id), from_gguf.is_control(id));
    }
    assert_eq!((from_json.bos(), from_json.add_bos()), (Some(2), true));
    assert_eq!((from_gguf.bos(), from_gguf.add_bos()), (Some(2), true));
    let names = |t: &Tokenizer| t.eos_ids().iter().map(|&id| t.decode(&[id], true)).collect::<Vec<_>>();
    assert_eq!(
        (names(&from_gguf), names(&from_json)),
        (vec!["<eos>".into(), "<end_of_turn>".into()], vec!["<end_of_turn>".to_string()])
    );
}

/// `LEAN_TOKENIZER_CHECK=MODEL.gguf:GOLDENS.json`, made by `tests/reference/tokenizer_goldens.py --of MODEL.gguf GOLDENS.json`.
#[test]
fn the_vocabulary_of_a_given_file() {
    let Some(pair) = std::env::var_os("LEAN_TOKENIZER_CHECK") else {
        println!("skipped: LEAN_TOKENIZER_CHECK=MODEL.gguf:GOLDENS.json is not set");
        return;
    };
    let (model, goldens) = pair.to_str().unwrap().split_once(':').expect("MODEL.gguf:GOLDENS.json");
    let start = std::time::Instant::now();
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(Path::new(model), false).unwrap().metadata).unwrap();
    println!("{model}: loaded in {:?}", start.elapsed());
    check(&tokenizer, &serde_json::from_slice(&std::fs::read(goldens).unwrap()).unwrap(), model);
}

#[test]
fn the_real_vocabulary() {
    let dir =
        std::env::var_os("LEAN_MODEL_DIR").map_or_else(|| repository().join(".cache/models"), PathBuf::from);
    let model = dir.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.exists() {
        println!("skipped: {} is not there (scripts/fetch-model.sh fetches it)", model.display());
        return;
    }
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(&model, false).unwrap().metadata).unwrap();
    let goldens: Json = serde_json::from_slice(&fixture("real-smollm2.json")).unwrap();
    check(&tokenizer, &goldens, "SmolLM2");
}
