//! Ids to text and back.

use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// What to do with control tokens (`<|im_start|>` and the like) written in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They are plain text: nobody injects a role through data.
    Text,
    /// They become their ids, as in transformers' default.
    Parse,
}

/// A model's tokenizer. Immutable and shared.
pub struct Tokenizer {}

impl Tokenizer {
    /// From a GGUF's metadata alone.
    pub fn from_gguf(_metadata: &Metadata) -> Result<Self> {
        Err(Error::Internal("the tokenizer is not there yet".into()))
    }
    /// From the bytes of a `tokenizer.json`.
    pub fn from_json(_json: &[u8]) -> Result<Self> {
        Err(Error::Internal("the tokenizer is not there yet".into()))
    }
    /// Ids of a text; no BOS is added.
    pub fn encode(&self, _text: &str, _specials: Specials) -> Result<Vec<u32>> {
        Err(Error::Internal("the tokenizer is not there yet".into()))
    }
    /// Ids of a rendered conversation: control tokens are parsed, except where the renderer marked a
    /// literal inside a message's content (see [`crate::chat::Rendered`]).
    pub fn encode_rendered(&self, _rendered: &crate::chat::Rendered) -> Result<Vec<u32>> {
        Err(Error::Internal("the tokenizer is not there yet".into()))
    }
    /// The bytes a token stands for; a control token's are its name. Empty for unknown ids.
    pub fn bytes(&self, _id: u32) -> &[u8] {
        &[]
    }
    /// Whether a token is a control token (never text).
    pub fn is_control(&self, _id: u32) -> bool {
        false
    }
    /// Names of all control tokens.
    pub fn control_names(&self) -> Vec<&str> {
        Vec::new()
    }
    /// Number of ids.
    pub fn vocab_size(&self) -> usize {
        0
    }
    /// Beginning of sequence, if the model has one.
    pub fn bos(&self) -> Option<u32> {
        None
    }
    /// Whether a context starts with BOS.
    pub fn add_bos(&self) -> bool {
        false
    }
    /// Tokens that end a generation: EOS, and end-of-turn where the file names it.
    pub fn eos_ids(&self) -> &[u32] {
        &[]
    }
    /// Text of ids; bytes that are no UTF-8 become U+FFFD. Control tokens are kept or left out.
    pub fn decode(&self, _ids: &[u32], _keep_control: bool) -> String {
        String::new()
    }
}

/// Turns bytes that arrive piecemeal into text, never splitting a character.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Utf8Stream {
    /// The start of a character that is not complete yet.
    pub pending: Vec<u8>,
}

impl Utf8Stream {
    /// Adds bytes, returns the text that is complete. Invalid bytes become U+FFFD.
    pub fn push(&mut self, _bytes: &[u8]) -> String {
        String::new()
    }
    /// What is left at the end, as U+FFFD if incomplete.
    pub fn finish(&mut self) -> String {
        String::new()
    }
}
