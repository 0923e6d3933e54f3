//! What types promise, tried on a small vocabulary of bytes and multi-byte tokens.

mod budgets;
mod expressions;
mod hostile;
mod limits;
mod many;
mod masks;
mod numbers;
mod real;
mod references;
mod refused;
mod stopping;
mod tools;
mod unique;
mod walks;

use super::vocabulary::Tokens;
use super::*;
use std::sync::OnceLock;

/// Every byte, tokens that cross JSON's structure, two control tokens of which one ends a text, and padding.
pub(super) struct TestTokens {
    words: Vec<Vec<u8>>,
}

pub(super) const EOS: u32 = 1;
pub(super) const END_OF_TURN: u32 = 2;
/// Logits beyond the tokenizer's ids.
pub(super) const PADDING: usize = 5;

impl TestTokens {
    fn new() -> Self {
        let mut words = vec![b"<|start|>".to_vec(), b"<|end|>".to_vec(), b"<|turn|>".to_vec()];
        words.extend((0..=255u8).map(|b| vec![b]));
        for text in [
            "{\"", "\":", "\":\"", "\",\"", "\"}", "\"]", "[\"", "},{", "]}", "null", "true", "false", "tr",
            "ue", "12", "123", "0.", "00", "e1", " the", "he", "name", "\"name\"", "id", "\"id\":", "{}",
            "[]", "\\\"", "\\u00", "é", "日本", "-1", "@", ".com", "http", "://", "2024", "-02", "a", "aa",
            "abc", "kind", "bug", "\"bug\"", "<|end|>",
        ] {
            let word = text.as_bytes().to_vec();
            if text == "<|end|>" || !words.contains(&word) {
                words.push(word);
            }
        }
        TestTokens { words }
    }
}

impl Tokens for TestTokens {
    fn bytes(&self, id: u32) -> &[u8] {
        self.words.get(id as usize).map_or(&[], Vec::as_slice)
    }
    fn is_control(&self, id: u32) -> bool {
        id < 3
    }
    fn size(&self) -> usize {
        self.words.len()
    }
    fn eos_ids(&self) -> &[u32] {
        &[EOS, END_OF_TURN]
    }
    /// The longest token first: canonical by definition.
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        let mut rest = text.as_bytes();
        let mut ids = Vec::new();
        while !rest.is_empty() {
            let fits = |w: &[u8]| !w.is_empty() && rest.starts_with(w);
            let best = (3..self.words.len())
                .filter(|&i| fits(&self.words[i]))
                .max_by_key(|&i| self.words[i].len())?;
            ids.push(best as u32);
            rest = &rest[self.words[best].len()..];
        }
        Some(ids)
    }
}

pub(super) fn tokens() -> Arc<TestTokens> {
    static TOKENS: OnceLock<Arc<TestTokens>> = OnceLock::new();
    TOKENS.get_or_init(|| Arc::new(TestTokens::new())).clone()
}

pub(super) fn vocabulary() -> Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY
        .get_or_init(|| {
            let tokens = tokens();
            let vocab = tokens.size() + PADDING;
            Vocabulary::of(tokens, vocab).expect("the test vocabulary")
        })
        .clone()
}

/// Small, seeded, good enough to choose tokens.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

#[test]
fn types_and_vocabularies_go_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Type>();
    shared::<Vocabulary>();
    sent::<Matcher>();
}

#[test]
fn sources_survive_a_round_trip() {
    for source in [
        TypeSource::Expr(json!({"b": "string", "a?": "number"})),
        TypeSource::Schema(json!({"type": "integer"})),
        TypeSource::Text { max_chars: Some(5) },
        TypeSource::Regex("[a-z]+".into()),
        TypeSource::Choice(vec!["yes".into(), "no".into()]),
    ] {
        let text = serde_json::to_string(&source).unwrap();
        let back: TypeSource = serde_json::from_str(&text).unwrap();
        assert_eq!(back, source);
        let ty = Type::from_source(back).unwrap();
        assert_eq!(ty.source(), &source);
        assert_eq!(ty, Type::from_source(source).unwrap());
    }
}
