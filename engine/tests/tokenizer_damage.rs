//! Damaged tokenizers are typed errors that say what is wrong, never panics.

use lean_engine::gguf::{Metadata, Value};
use lean_engine::tokenizer::{Specials, Tokenizer};
use lean_engine::Error;
use std::path::Path;

fn strings(list: &[&str]) -> Value {
    Value::Strings(list.iter().map(|s| s.to_string()).collect())
}

/// A tokenizer of six tokens.
fn metadata() -> Metadata {
    let mut metadata = Metadata::default();
    for (key, value) in [
        ("model", Value::String("gpt2".into())),
        ("pre", Value::String("gpt-2".into())),
        ("tokens", strings(&["a", "b", "ab", "Ġ", "<end>", "<think>"])),
        ("token_type", Value::Ints(vec![1, 1, 1, 1, 3, 4])),
        ("merges", strings(&["a b"])),
        ("bos_token_id", Value::Uint(4)),
        ("eos_token_id", Value::Uint(4)),
        ("add_bos_token", Value::Bool(true)),
    ] {
        metadata.pairs.insert(format!("tokenizer.ggml.{key}"), value);
    }
    metadata
}

fn with(key: &str, value: Option<Value>) -> Result<Tokenizer, Error> {
    let mut metadata = metadata();
    let key = format!("tokenizer.ggml.{key}");
    match value {
        Some(value) => metadata.pairs.insert(key, value),
        None => metadata.pairs.shift_remove(&key),
    };
    Tokenizer::from_gguf(&metadata)
}

#[test]
fn the_undamaged_one_works() {
    let tokenizer = Tokenizer::from_gguf(&metadata()).unwrap();
    assert_eq!(tokenizer.encode("abba a<end><think>", Specials::Parse).unwrap(), [2, 1, 0, 3, 0, 4, 5]);
    // Bytes that no token spells are dropped, as in the reference.
    assert_eq!(tokenizer.encode("a<end>b", Specials::Text).unwrap(), [0, 1]);
    assert_eq!((tokenizer.bos(), tokenizer.add_bos(), tokenizer.eos_ids()), (Some(4), true, &[4][..]));
    assert_eq!(tokenizer.bytes(6), b"");
    assert_eq!(
        (tokenizer.is_control(4), tokenizer.is_control(5), tokenizer.is_control(6)),
        (true, false, true)
    );
    assert_eq!(tokenizer.decode(&[2, 4, 99, 3], false), "ab ");
    assert_eq!(tokenizer.control_names(), ["<end>"]);
}

#[test]
fn every_damage_is_named() {
    let text = |s: &str| Some(Value::String(s.into()));
    let types = |list: &[i64]| Some(Value::Ints(list.to_vec()));
    let tokens = |list: &[&str]| Some(strings(list));
    for (key, value, code, words) in [
        ("model", None, 201, "no tokenizer"),
        ("model", text("bert"), 202, "bert"),
        ("model", Some(Value::Uint(1)), 201, "not a string"),
        ("pre", text("deepseek-coder"), 202, "smollm, llama-bpe, lfm2, qwen2"),
        ("tokens", None, 201, "tokens"),
        ("tokens", tokens(&[]), 201, "0 types for 0 tokens|6 types for 0 tokens"),
        ("tokens", tokens(&["a", "b"]), 201, "6 types for 2 tokens"),
        ("tokens", tokens(&["a", "b", "a", "Ġ", "<end>", "<think>"]), 201, "tokens 0 and 2 are both \"a\""),
        ("tokens", tokens(&["a", "b", "ba", "Ġ", "<end>", "<think>"]), 201, "no token is \"ab\""),
        ("token_type", types(&[1, 1, 1, 1, 3, 9]), 201, "token_type[5]"),
        ("token_type", types(&[1, 1, 1, 1, 3, -1]), 201, "token_type[5]"),
        ("token_type", types(&[1]), 201, "1 types for 6 tokens"),
        ("token_type", text("x"), 201, "not an array"),
        ("merges", tokens(&["a c"]), 201, "no token is \"c\""),
        ("merges", tokens(&["ab"]), 201, "merges[0]"),
        ("merges", tokens(&["a b", ""]), 201, "merges[1]"),
        ("merges", tokens(&[" b"]), 201, "merges[0]"),
        ("merges", tokens(&["a "]), 201, "merges[0]"),
        ("merges", tokens(&["a 世"]), 201, "merges[0]"),
        ("merges", tokens(&["a b c"]), 201, "merges[0]"),
        ("merges", Some(Value::Uints(vec![1])), 201, "not an array"),
        ("bos_token_id", Some(Value::Uint(6)), 201, "6 is not the id"),
        ("eos_token_id", Some(Value::Uint(1 << 40)), 201, "not the id"),
        ("eos_token_id", text("x"), 201, "not an integer"),
        ("add_bos_token", Some(Value::Uint(1)), 201, "not a boolean"),
    ] {
        let error = with(key, value.clone()).err().unwrap_or_else(|| panic!("{key} = {value:?} was taken"));
        assert_eq!(error.code(), code, "{key}: {error}");
        let message = error.to_string();
        assert!(words.split('|').any(|w| message.contains(w)), "{key} = {value:?}: {message}");
    }
    // What files leave out, or write instead of nothing.
    for (key, value) in [
        ("pre", None),
        ("token_type", None),
        ("merges", None),
        ("bos_token_id", None),
        ("bos_token_id", Some(Value::Int(-1))),
        ("eos_token_id", Some(Value::Uint(u64::from(u32::MAX)))),
        ("token_type", Some(Value::Uints(vec![1, 1, 1, 1, 3, 4]))),
    ] {
        with(key, value.clone()).unwrap_or_else(|e| panic!("{key} = {value:?}: {e}"));
    }
    assert!(with("token_type", None).unwrap().is_control(4), "EOS is structure even where nothing says so");
}

/// Pieces with scores, as llama 2 and Gemma have them.
fn pieces() -> Metadata {
    let mut metadata = Metadata::default();
    for (key, value) in [
        ("model", Value::String("llama".into())),
        ("tokens", strings(&["<unk>", "<s>", "▁", "a", "b", "▁a", "ab", "▁ab", "<0x0A>"])),
        ("token_type", Value::Ints(vec![2, 3, 1, 1, 1, 1, 1, 1, 6])),
        ("scores", Value::Floats(vec![0.0, 0.0, -9.0, -8.0, -7.0, -2.0, -1.0, -3.0, 0.0])),
        ("unknown_token_id", Value::Uint(0)),
        ("bos_token_id", Value::Uint(1)),
    ] {
        metadata.pairs.insert(format!("tokenizer.ggml.{key}"), value);
    }
    metadata
}

#[test]
fn pieces_merge_by_score_behind_a_space() {
    let tokenizer = Tokenizer::from_gguf(&pieces()).unwrap();
    let encode = |text: &str| tokenizer.encode(text, Specials::Parse).unwrap();
    // A space goes in front, also behind a control token; "ab" is worth more than "▁a".
    assert_eq!((encode("ab"), encode("a")), (vec![7], vec![5]));
    assert_eq!(encode("a  ba<s>b"), [5, 2, 2, 4, 3, 1, 2, 4]);
    // Without all 256 bytes, what no piece spells is unknown, one token a run.
    assert_eq!(encode("a\nccb"), [5, 0, 4]);
    assert_eq!(encode(""), [0u32; 0]);
    // The space that encoding puts in front is taken off again.
    assert_eq!(tokenizer.decode(&[7, 2, 3], true), "ab a");
    assert_eq!((tokenizer.bytes(7), tokenizer.bytes(8)), (&b" ab"[..], &b"\n"[..]));
    assert!(tokenizer.add_bos(), "such models begin with BOS where the file does not say");
}

#[test]
fn every_damage_of_pieces_is_named() {
    let floats = |list: &[f32]| Some(Value::Floats(list.to_vec()));
    for (key, value, code, words) in [
        ("scores", None, 201, "scores"),
        ("scores", floats(&[0.0]), 201, "1 scores for 9 tokens"),
        ("scores", Some(Value::Ints(vec![0; 9])), 201, "not an array of numbers"),
        ("scores", floats(&[f32::NAN; 9]), 201, "not a number"),
        ("token_type", Some(Value::Ints(vec![2, 3, 6, 1, 1, 1, 1, 1, 6])), 201, "not a byte"),
        ("unknown_token_id", Some(Value::Uint(9)), 201, "9 is not the id"),
        ("add_space_prefix", Some(Value::Uint(1)), 201, "not a boolean"),
        (
            "tokens",
            Some(strings(&["0", "1", "2", "3", "4", "5", "6", &"a".repeat(513), "<0x0A>"])),
            202,
            "513 characters",
        ),
    ] {
        let mut metadata = pieces();
        let name = format!("tokenizer.ggml.{key}");
        match value.clone() {
            Some(value) => metadata.pairs.insert(name, value),
            None => metadata.pairs.shift_remove(&name),
        };
        let error =
            Tokenizer::from_gguf(&metadata).err().unwrap_or_else(|| panic!("{key} = {value:?} was taken"));
        assert_eq!(error.code(), code, "{key}: {error}");
        assert!(error.to_string().contains(words), "{key} = {value:?}: {error}");
    }
}

#[test]
fn every_mutation_of_a_tokenizer_json_is_an_error_or_a_tokenizer() {
    for family in ["qwen2", "gemma"] {
        mutate_json(family);
    }
}

fn mutate_json(family: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tokenizer");
    let json = std::fs::read(dir.join(format!("{family}.tokenizer.json"))).unwrap();
    let mut seed = 1u64;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut errors = 0;
    for round in 0..150 {
        let mut damaged = json.clone();
        match round % 3 {
            0 => damaged.truncate(below(json.len())),
            1 => {
                for _ in 0..=below(3) {
                    let at = below(json.len());
                    damaged[at] = b"0123456789abc,:[]{}\"\\ \xff"[below(23)];
                }
            }
            _ => {
                let (from, to) = (below(json.len()), below(40));
                damaged.drain(from..(from + to).min(json.len()));
            }
        }
        match Tokenizer::from_json(&damaged) {
            Ok(tokenizer) => {
                let ids = tokenizer.encode("I'm <think> 12 世界\n\n", Specials::Parse).unwrap();
                tokenizer.decode(&ids, true);
            }
            Err(Error::BadModel { .. } | Error::UnsupportedModel { .. }) => errors += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(errors > 75, "{family}: only {errors} mutations were noticed");
}

#[test]
fn json_that_is_not_byte_level_bpe_is_refused_by_name() {
    let file = |model: &str, rest: &str| format!(r#"{{"model": {model}{rest}}}"#);
    let bpe = r#"{"type": "BPE", "vocab": {"a": 0}, "merges": []}"#;
    let byte_level = r#", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}"#;
    assert!(Tokenizer::from_json(file(bpe, byte_level).as_bytes()).is_ok());
    let pieces = r#"{"type": "BPE", "vocab": {"a": 0}, "merges": [], "byte_fallback": true}"#;
    let spaces = r#", "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}"#;
    assert!(Tokenizer::from_json(file(pieces, spaces).as_bytes()).is_ok());
    for (json, code, words) in [
        ("[]".into(), 201, "tokenizer.json"),
        (file(r#"{"type": "Unigram", "vocab": [["a", 0.0]]}"#, byte_level), 201, "only BPE"),
        (file(r#"{"type": "WordPiece", "vocab": {"a": 0}}"#, byte_level), 202, "model.type"),
        (
            file(r#"{"type": "BPE", "vocab": {"a": 0}, "byte_fallback": true}"#, byte_level),
            202,
            "byte_fallback",
        ),
        (file(r#"{"type": "BPE", "vocab": {"a": 0}, "unk_token": "a"}"#, byte_level), 202, "unk_token"),
        (file(pieces, ""), 202, "normalizer"),
        (
            file(
                pieces,
                r#", "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}"#,
            ),
            202,
            "normalizer",
        ),
        (
            file(pieces, &format!(r#"{spaces}, "pre_tokenizer": {{"type": "Metaspace"}}"#)),
            202,
            "pre_tokenizer",
        ),
        (file(&pieces.replace("[]", r#"["a b"]"#), spaces), 201, "no token is \"b\""),
        (file(&pieces.replace("[]", r#"["a"]"#), spaces), 201, "merge 0"),
        (file(&pieces.replace("true", r#"true, "ignore_merges": true"#), spaces), 202, "ignore_merges"),
        (file(r#"{"type": "BPE", "vocab": {"a": 0, "b": 0}}"#, byte_level), 201, "both have id 0"),
        (file(r#"{"type": "BPE", "vocab": {"a": 4294967295}}"#, byte_level), 201, "4294967295"),
        (file(r#"{"type": "BPE", "vocab": {}}"#, byte_level), 201, "no tokens"),
        (file(bpe, ""), 202, "byte-level"),
        (file(bpe, r#", "pre_tokenizer": {"type": "Whitespace"}"#), 202, "pre_tokenizer"),
        (file(bpe, &format!(r#"{byte_level}, "normalizer": {{"type": "Lowercase"}}"#)), 202, "normalizer"),
    ] {
        let error = Tokenizer::from_json(json.as_bytes()).err().unwrap_or_else(|| panic!("{json} was taken"));
        assert_eq!(error.code(), code, "{json}: {error}");
        assert!(error.to_string().contains(words), "{json}: {error}");
    }
}
