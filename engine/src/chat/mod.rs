//! Messages and tools to text with the model's own template.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A whole conversation, as transformers' `apply_chat_template` takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// `[{"role": ..., "content": ...}, ...]`; further keys reach the template as they are.
    pub messages: Vec<Value>,
    /// Tools as JSON (OpenAI's form), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Value>>,
    /// End with the header of the assistant's turn. Default true.
    #[serde(default = "yes")]
    pub add_generation_prompt: bool,
    /// Control-token literals inside message content become control tokens. Default false.
    #[serde(default)]
    pub trusted: bool,
    /// Further variables of the template (`enable_thinking` and the like).
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub variables: serde_json::Map<String, Value>,
}

fn yes() -> bool {
    true
}

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The text, with `marker` inside control-token literals that came from content.
    pub text: String,
    /// A character that occurs nowhere else in the text; `None` if nothing had to be marked.
    pub marker: Option<char>,
}

/// A compiled chat template.
pub struct ChatTemplate {}

impl ChatTemplate {
    /// Compiles a template (`tokenizer.chat_template`).
    pub fn new(_source: &str, _bos: &str, _eos: &str) -> Result<Self> {
        Err(Error::Internal("chat templates are not there yet".into()))
    }
    /// The conversation as text. `control` names the control tokens whose literals in message content are
    /// to stay text (ignored when the chat is trusted).
    pub fn render(&self, _chat: &Chat, _control: &[&str]) -> Result<Rendered> {
        Err(Error::Internal("chat templates are not there yet".into()))
    }
}
