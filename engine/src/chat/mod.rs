//! Messages and tools to text with the model's own template, as transformers' `apply_chat_template` renders it.
//!
//! | file | does |
//! | --- | --- |
//! | `template` | compiles and renders: transformers' Jinja environment, bounded |
//! | `source`, `data` | what is changed in a template before it is compiled, to bound what it keeps |
//! | `python` | what templates expect of Python: methods, `raise_exception`, `strftime_now` |
//! | `json` | `tojson`, as Python's `json.dumps` writes it |
//! | `mark` | keeps control tokens written in content from becoming control tokens |
//! | `trim` | drops the oldest exchange |

mod data;
mod json;
mod mark;
mod python;
mod source;
mod template;
mod trim;

pub use template::ChatTemplate;
pub use trim::chat_trim_oldest_exchange;

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
    /// Further variables of the template (`enable_thinking`, `date_string`, `documents` and the like).
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub variables: serde_json::Map<String, Value>,
}

fn yes() -> bool {
    true
}

impl Chat {
    /// Messages alone, with a generation prompt.
    pub fn new(messages: Vec<Value>) -> Self {
        Chat {
            messages,
            tools: None,
            add_generation_prompt: true,
            trusted: false,
            variables: Default::default(),
        }
    }
}

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The text, with `marker` inside control-token literals that came from content.
    pub text: String,
    /// A character that occurs nowhere else in the text; `None` if nothing had to be marked.
    pub marker: Option<char>,
}

impl Rendered {
    /// The text without markers: what transformers' `apply_chat_template(tokenize=False)` returns.
    pub fn plain(&self) -> String {
        match self.marker {
            Some(marker) => self.text.replace(marker, ""),
            None => self.text.clone(),
        }
    }
}
