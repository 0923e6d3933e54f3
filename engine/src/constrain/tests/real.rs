//! The same promises with the vocabulary of a real model (SmolLM2's, as the tiny fixtures carry it).

use super::walks::{walk, Walk};
use super::*;
use crate::gguf::Gguf;
use crate::tokenizer::{Specials, Tokenizer};

pub(super) fn fixture() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf");
    TOKENIZER
        .get_or_init(|| {
            let bytes: Arc<[u8]> = std::fs::read(path).expect("the fixture").into();
            let gguf = Gguf::from_bytes(bytes).expect("a GGUF file");
            Arc::new(Tokenizer::from_gguf(&gguf.metadata).expect("a tokenizer"))
        })
        .clone()
}

#[test]
fn a_real_vocabulary_keeps_the_promises() {
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size() + 7).unwrap();
    assert_eq!(vocabulary.eos_ids().len(), tokenizer.eos_ids().len());
    for expr in [
        r#"{"id": "number", "name": "string < 64", "tags?": "string[] <= 5", "kind": "'bug' | 'feature'"}"#,
        r#"{"day": "string.date.iso", "mail": "string.email", "unit": "0 <= number <= 1"}"#,
        r#"{"[string]": "'a' | 'b'"}"#,
    ] {
        let ty = Type::expr(expr).unwrap();
        for seed in 0..10 {
            if let Walk::Value(text) = walk(&ty, &vocabulary, tokenizer.as_ref(), seed, 200).unwrap() {
                ty.check(&text).unwrap_or_else(|e| panic!("{expr}: {text}: {e}"));
            }
        }
    }
}

#[test]
fn forced_runs_are_what_the_tokenizer_would_write() {
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size()).unwrap();
    let ty = Type::expr(r#"{"first name": "'Ada Lovelace'", "born": "1815"}"#).unwrap();
    let text = r#"{"first name":"Ada Lovelace","born":1815}"#;
    let mut matcher = Matcher::new(&ty, &vocabulary).unwrap();
    let forced = matcher.forced().unwrap();
    assert_eq!(forced, tokenizer.encode(text, Specials::Text).unwrap());
    for id in forced {
        matcher.consume(id).unwrap();
    }
    assert!(matcher.is_done().unwrap());
    assert_eq!(ty.check(text).unwrap()["born"], 1815);
}
