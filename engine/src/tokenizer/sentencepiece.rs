//! Vocabularies of SentencePiece's BPE (llama 2's, Gemma's): pieces are text with `▁` for a space, and characters that no
//! piece spells fall back to byte tokens.
//!
//! SentencePiece merges the pair that makes the piece of highest score. Hugging Face's tokenizers write the same as a
//! list of merges (`transformers.tokenization_utils_base.generate_merges`), and so does `piece_merges`: the ids are theirs.

use super::vocab::{ByteIndex, Kind, Vocab};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// Stands for a space in a piece.
pub(super) const SPACE: char = '▁';

/// How a text becomes characters that pieces are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spaces {
    /// Every text, and every part between added tokens, begins with a space.
    pub(super) prefix: bool,
}

impl Spaces {
    pub(super) fn apply(self, text: &str) -> String {
        let mut spaced = String::with_capacity(text.len() + SPACE.len_utf8());
        if self.prefix {
            spaced.push(SPACE);
        }
        spaced.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        spaced
    }
}

/// Appends the next id; a piece is kept as the text that it stands for.
pub(super) fn push(vocab: &mut Vocab, kind: Kind, piece: &str) -> Result<()> {
    match kind {
        Kind::Normal | Kind::UserDefined => vocab.push(kind, piece.replace(SPACE, " ").as_bytes()),
        Kind::Byte => match byte(piece) {
            Some(byte) => vocab.push(kind, &[byte]),
            None => {
                Err(Error::bad_model("vocabulary", format!("{piece:?} is not a byte in the form <0x00>")))
            }
        },
        _ => vocab.push(kind, piece.as_bytes()),
    }
}

/// The byte that a piece of the form `<0x0A>` stands for.
pub(super) fn byte(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Pieces of text by their bytes; of equal ones the first counts, and ordinary ones before user-defined ones.
pub(super) fn index(vocab: &Vocab) -> Result<ByteIndex> {
    let mut index = ByteIndex::with_capacity(vocab.len())?;
    for kind in [Kind::Normal, Kind::UserDefined] {
        for id in 0..vocab.len() as u32 {
            if vocab.kind(id) == Some(kind) && !vocab.bytes(id).is_empty() {
                let _ = index.insert(vocab, id);
            }
        }
    }
    Ok(index)
}

/// The first symbols of a word: its characters, or their bytes.
pub(super) struct Chars {
    ids: HashMap<char, u32>,
    /// Where all 256 have a token.
    bytes: Option<Box<[u32; 256]>>,
    unknown: Option<u32>,
}

impl Chars {
    /// `unknown` stands for a run of characters that neither a piece nor bytes spell; without one they are dropped.
    pub(super) fn new(vocab: &Vocab, unknown: Option<u32>) -> Self {
        let mut ids = HashMap::new();
        let mut bytes: Vec<Option<u32>> = vec![None; 256];
        let of = |kinds: &'static [Kind]| {
            (0..vocab.len() as u32).filter(move |&id| vocab.kind(id).is_some_and(|k| kinds.contains(&k)))
        };
        for id in of(&[Kind::Normal]).chain(of(&[Kind::UserDefined])) {
            let text = std::str::from_utf8(vocab.bytes(id)).unwrap_or_default();
            let mut chars = text.chars();
            if let (Some(c), None) = (chars.next(), chars.next()) {
                ids.entry(if c == ' ' { SPACE } else { c }).or_insert(id);
            }
        }
        for id in of(&[Kind::Byte]) {
            bytes[usize::from(vocab.bytes(id)[0])].get_or_insert(id);
        }
        let bytes: Option<Vec<u32>> = bytes.into_iter().collect();
        Chars { ids, bytes: bytes.and_then(|b| b.try_into().ok()).map(Box::new), unknown }
    }

    /// Calls `each` with every symbol.
    pub(super) fn symbols(&self, word: &str, mut each: impl FnMut(u32)) {
        let mut unknown = false;
        for c in word.chars() {
            if let Some(&id) = self.ids.get(&c) {
                unknown = false;
                each(id);
            } else if let Some(bytes) = &self.bytes {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| each(bytes[usize::from(b)]));
            } else if let Some(id) = self.unknown.filter(|_| !unknown) {
                unknown = true;
                each(id);
            }
        }
    }
}

/// Text of tokens' bytes. A run of byte tokens that is no UTF-8 becomes a U+FFFD for each of its bytes, as in the
/// reference.
pub(super) fn decode<'v>(tokens: impl Iterator<Item = (Kind, &'v [u8])>, strip_prefix: bool) -> String {
    let (mut text, mut run) = (String::new(), Vec::new());
    let flush = |run: &mut Vec<u8>, text: &mut String| {
        match std::str::from_utf8(run) {
            Ok(run) => text.push_str(run),
            Err(_) => run.iter().for_each(|_| text.push(char::REPLACEMENT_CHARACTER)),
        }
        run.clear();
    };
    for (kind, bytes) in tokens {
        if kind == Kind::Byte {
            run.extend_from_slice(bytes);
        } else {
            flush(&mut run, &mut text);
            text.push_str(&String::from_utf8_lossy(bytes));
        }
    }
    flush(&mut run, &mut text);
    if strip_prefix && text.starts_with(' ') {
        text.remove(0);
    }
    text
}
