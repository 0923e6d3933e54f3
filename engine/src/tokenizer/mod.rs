//! Ids to text and back: byte-level and SentencePiece BPE, equal to transformers' token for token.
//!
//! | file | does |
//! | --- | --- |
//! | `gguf`, `json`, `json_pieces` | read a tokenizer from GGUF metadata or from a `tokenizer.json` |
//! | `added` | cuts text at control and user-defined tokens |
//! | `pretokenize` | cuts what is between them into words |
//! | `sentencepiece`, `piece_merges` | vocabularies of pieces with `▁` for a space: byte fallback, scores to merges |
//! | `bpe`, `vocab` | turn words into ids, on one flat copy of the vocabulary |
//! | `bytelevel` | the alphabet in which vocabularies spell bytes |
//! | `utf8` | bytes that arrive piecemeal to text |

mod added;
mod bpe;
mod bytelevel;
mod gguf;
mod json;
mod json_pieces;
mod piece_merges;
mod pretokenize;
mod sentencepiece;
mod utf8;
mod vocab;

pub use utf8::Utf8Stream;

use crate::error::Result;
use crate::gguf::Metadata;
use added::{Added, Part};
use bpe::Bpe;
use pretokenize::Words;
use vocab::{Kind, Vocab};

/// What to do with control tokens (`<|im_start|>` and the like) written in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They are plain text: nobody injects a role through data.
    Text,
    /// They become their ids, as in transformers' default.
    Parse,
}

/// Control tokens that end a turn or a text, whatever the file says about them.
const END_NAMES: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
];

/// A model's tokenizer. Immutable and shared.
pub struct Tokenizer {
    vocab: Vocab,
    bpe: Bpe,
    words: Words,
    added: Added,
    bos: Option<u32>,
    add_bos: bool,
    eos_ids: Vec<u32>,
}

/// What a file says, checked.
struct Parts {
    vocab: Vocab,
    bpe: Bpe,
    words: Words,
    added: Added,
    bos: Option<u32>,
    add_bos: bool,
    /// EOS first, if the file names it.
    end_ids: Vec<u32>,
}

impl Tokenizer {
    /// From a GGUF's metadata alone.
    ///
    /// Damaged metadata is [`crate::Error::BadModel`]; a kind of tokenizer or a pre-tokenizer that is not known is
    /// [`crate::Error::UnsupportedModel`]. The metadata's own copy of the vocabulary is not needed afterwards.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self> {
        gguf::tokenizer(metadata)
    }

    /// From the bytes of a `tokenizer.json`.
    ///
    /// That file does not say which token ends a turn: those known by name do (`<|im_end|>` and the like).
    /// Whether a context starts with BOS is read from its post-processor. Errors as [`Tokenizer::from_gguf`].
    pub fn from_json(json: &[u8]) -> Result<Self> {
        json::tokenizer(json)
    }

    fn from_parts(parts: Parts) -> Result<Self> {
        let Parts { vocab, bpe, words, added, bos, add_bos, end_ids: mut eos_ids } = parts;
        for id in 0..vocab.len() as u32 {
            let ends = vocab.kind(id) == Some(Kind::Control)
                && END_NAMES.iter().any(|n| n.as_bytes() == vocab.bytes(id));
            if ends {
                eos_ids.push(id);
            }
        }
        let mut seen = std::collections::HashSet::new();
        eos_ids.retain(|&id| seen.insert(id));
        Ok(Tokenizer { vocab, bpe, words, added, bos, add_bos, eos_ids })
    }

    /// Ids of a text; no BOS is added.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_into(text, specials, &mut ids)?;
        Ok(ids)
    }

    fn encode_into(&self, text: &str, specials: Specials, ids: &mut Vec<u32>) -> Result<()> {
        self.added.split_original(text, specials, |part| match part {
            Part::Token(id) => {
                ids.push(id);
                Ok(())
            }
            Part::Text(text) => {
                let text = self.words.normalize(text)?;
                self.added.split_normalized(&text, specials, |part| match part {
                    Part::Token(id) => {
                        ids.push(id);
                        Ok(())
                    }
                    Part::Text(text) => self.encode_words(text, ids),
                })
            }
        })
    }

    fn encode_words(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut bytes = Vec::new();
        self.words.cut(text, |word| {
            bytes.clear();
            if self.words.spelled && bytelevel::unspell(word, &mut bytes) {
                self.bpe.encode(&self.vocab, &bytes, ids);
            } else {
                self.bpe.encode(&self.vocab, word.as_bytes(), ids);
            }
        })
    }

    /// Ids of a rendered conversation: control tokens are parsed, except the literals that have a `marker`
    /// character inside, which stay text. Markers themselves are left out.
    pub fn encode_marked(&self, text: &str, marker: Option<char>) -> Result<Vec<u32>> {
        let Some(marker) = marker else { return self.encode(text, Specials::Parse) };
        let mut ids = Vec::new();
        self.added.split_original(text, Specials::Parse, |part| match part {
            Part::Token(id) => {
                ids.push(id);
                Ok(())
            }
            Part::Text(text) => self.encode_into(&text.replace(marker, ""), Specials::Text, &mut ids),
        })?;
        Ok(ids)
    }

    /// The bytes a token stands for; a control token's are its name. Empty for unknown ids.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.vocab.bytes(id)
    }

    /// Whether a token is a control token (never text). Padding and holes of the vocabulary are, too.
    pub fn is_control(&self, id: u32) -> bool {
        !matches!(self.vocab.kind(id), Some(Kind::Normal | Kind::UserDefined | Kind::Byte | Kind::Unspelled))
    }

    /// Names of all control tokens.
    pub fn control_names(&self) -> Vec<&str> {
        (0..self.vocab.len() as u32)
            .filter(|&id| self.vocab.kind(id) == Some(Kind::Control))
            .filter_map(|id| std::str::from_utf8(self.vocab.bytes(id)).ok())
            .collect()
    }

    /// Number of ids.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// Beginning of sequence, if the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Whether a context starts with BOS.
    pub fn add_bos(&self) -> bool {
        self.add_bos && self.bos.is_some()
    }

    /// Tokens that end a generation: EOS first, and end-of-turn where the file names it.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// Text of ids; bytes that are no UTF-8 become U+FFFD. Control tokens are kept or left out.
    pub fn decode(&self, ids: &[u32], keep_control: bool) -> String {
        let ids = ids.iter().copied().filter(|&id| keep_control || !self.is_control(id));
        if let Some(spaces) = self.words.spaces {
            let kind = |id| self.vocab.kind(id).unwrap_or(Kind::Unused);
            return sentencepiece::decode(ids.map(|id| (kind(id), self.bytes(id))), spaces.prefix);
        }
        let mut bytes = Vec::new();
        for id in ids {
            bytes.extend_from_slice(self.bytes(id));
        }
        match String::from_utf8_lossy(&bytes) {
            std::borrow::Cow::Owned(text) => text,
            std::borrow::Cow::Borrowed(text) => text.to_owned(),
        }
    }
}
