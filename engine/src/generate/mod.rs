//! The Generation object that joins context, backend, matcher and sampler.

mod ahead;
mod branch;
mod candidates;
mod confidence;
mod partial;
mod prefill;
mod random;
mod request;
mod run;
mod spans;
mod steer;
mod text;
#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod thread;
#[cfg(target_arch = "wasm32")]
#[path = "wasm.rs"]
mod thread;

pub(crate) use branch::Branch;
pub use candidates::{Candidate, MAX_CANDIDATES};
pub use confidence::{Alternative, Confidence, Leaf};
pub(crate) use prefill::{advance, Advance};
pub use request::{Request, RequestOptions};
pub(crate) use run::{Resume, Run, RunDeps};
use thread::Ahead;

use serde::{Deserialize, Serialize};

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The value is complete, or the model ended its text.
    Complete,
    /// A stop string was met (plain text only); it is not part of the text.
    Stop,
    /// The token budget was reached (plain text only: any other value is steered to its end in time).
    Length,
}

impl Finish {
    /// `complete`, `stop` or `length`.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Complete => "complete",
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

/// What happens while a value is generated, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Context tokens run so far, of those that have to be run.
    Prefill {
        /// Run.
        done: usize,
        /// To run.
        total: usize,
    },
    /// A token was added to the value.
    Token {
        /// Its id.
        id: u32,
        /// Text that became complete with it: whole UTF-8 characters, possibly none. Text that may turn out
        /// to be the start of a stop string is held back.
        text: String,
        /// The type allowed nothing else, so no logits were looked at; or the rest of the budget did not.
        forced: bool,
    },
    /// Text that was held back and became final without a further token; only at the end.
    Text {
        /// The text.
        text: String,
    },
    /// The value so far; only if [`RequestOptions::partials`] asked for it and the type is JSON. At most one a step,
    /// after the step's tokens.
    Partial {
        /// JSON pointer of the innermost value that is being written.
        path: String,
        /// The value so far, closed so that it parses. Strings are shown as they grow; numbers and words once
        /// they are whole.
        json: String,
        /// Bytes at the start of `json` that are the value's own text and stay as they are; the rest closes it.
        final_bytes: usize,
    },
    /// What the next token is chosen from; only if [`RequestOptions::candidates`] asked for it. Tokens that the type
    /// forces have none; the end of a value has one that no token follows. A checkpoint inside the value does not keep it.
    Candidates {
        /// The likeliest tokens, likeliest first, and at the end the one taken if it is not among them.
        candidates: Vec<Candidate>,
    },
}

/// Counts and times of one generation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the context when the generation began.
    pub prompt_tokens: usize,
    /// Of those, tokens whose state was already there.
    pub reused_tokens: usize,
    /// Tokens chosen from logits.
    pub sampled_tokens: usize,
    /// Tokens that the type forced, or the rest of the budget.
    pub forced_tokens: usize,
    /// Of those, tokens that ran together with another one, each of which saved a pass.
    #[serde(default)]
    pub saved_passes: usize,
    /// Passes over the weights that this generation took part in.
    pub passes: usize,
    /// Seconds from the call to the first sampled token.
    pub first_token_seconds: f64,
    /// Seconds from the call to the end.
    pub total_seconds: f64,
}

impl Usage {
    /// Tokens of the value.
    pub fn generated_tokens(&self) -> usize {
        self.sampled_tokens + self.forced_tokens
    }

    /// Value tokens per second after the first sampled one; 0 where there is nothing to measure.
    pub fn tokens_per_second(&self) -> f64 {
        let seconds = self.total_seconds - self.first_token_seconds;
        if seconds > 0.0 && self.generated_tokens() > 1 {
            (self.generated_tokens() - 1) as f64 / seconds
        } else {
            0.0
        }
    }
}

/// A finished generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The value; for text types a JSON string.
    pub value: serde_json::Value,
    /// The value's text as generated: compact JSON, or the plain text.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Ids of the value.
    pub tokens: Vec<u32>,
    /// Counts and times.
    pub usage: Usage,
    /// How sure the model was, if [`RequestOptions::confidence`] asked for it.
    pub confidence: Option<Confidence>,
    /// [`crate::Type::warnings`] of its type.
    pub warnings: Vec<String>,
}
