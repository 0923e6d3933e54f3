//! What a request needs of an engine. Two implementations: the built-in echo and the real engine.
//!
//! Blocks, types and options pass through as JSON, since their forms are the engine's and not the protocol's.

use lean_engine::{CancelToken, Error, Restore, Restored, Result};
use serde_json::Value;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// What to load, and how.
#[derive(Debug, Clone, Default)]
pub struct LoadSpec {
    /// A model file, or the name of a built-in model.
    pub path: String,
    /// `cpu`, `gpu` or `auto`.
    pub backend: Option<String>,
    /// Threads of the CPU backend.
    pub threads: Option<usize>,
    /// Default tokens of context of the model's sessions.
    pub context: Option<usize>,
    /// How keys and values are stored: `f32`, `f24`, `f16` or `q8_0`.
    pub kv: Option<String>,
    /// How exactly it is computed: `exact` or `fast`.
    pub precision: Option<String>,
}

/// Called with bytes done and bytes in all; its error ends the load.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;
/// Called with tokens done and tokens in all; its error ends the call, which then changed nothing.
pub type OnPrefill<'a> = &'a mut dyn FnMut(usize, usize) -> Result<()>;

/// Whoever loads models.
pub trait Host: Send + Sync {
    /// Name and version, for people.
    fn name(&self) -> String;
    /// What this build can do, such as `cpu` or `echo`.
    fn capabilities(&self) -> Vec<String>;
    /// A flag that ends every request, of which each request's own is a child.
    fn cancel(&self) -> CancelToken {
        CancelToken::new()
    }
    /// Loads a model. Blocks; looks at `cancel` often.
    fn load(
        &self,
        spec: &LoadSpec,
        on_progress: OnProgress<'_>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn Model>>;
}

/// A loaded model: immutable, shared.
pub trait Model: Send + Sync {
    /// A JSON object that describes it.
    fn info(&self) -> Value;
    /// An empty sequence of at most `context` tokens.
    fn open(&self, context: Option<usize>) -> Result<Box<dyn Session>>;
    /// A sequence that continues exactly where the checkpoint was taken.
    fn restore(&self, checkpoint: &dyn Checkpoint, context: Option<usize>) -> Result<Box<dyn Session>>;
    /// A checkpoint from its bytes, checked against this model and as it goes on here, and what was done to it.
    fn checkpoint(&self, given: Given<'_>) -> Result<(Arc<dyn Checkpoint>, Restored)>;
    /// A JSON object of what it has done and what it takes.
    fn stats(&self) -> Value;
    /// Sets how many bytes of state it keeps of earlier contexts.
    fn set_prefix_cache(&self, bytes: u64);
    /// A LoRA adapter from a file or folder, checked against this model.
    fn load_adapter(&self, path: &str) -> Result<Arc<dyn Adapter>> {
        let _ = path;
        Err(Error::unsupported("adapter", "this model has no weights to adapt"))
    }
}

/// Bytes of a checkpoint, and how they may be taken over.
pub struct Given<'a> {
    /// What a checkpoint's `to_bytes` gave.
    pub bytes: &'a [u8],
    /// The checkpoint that they were made with, if any.
    pub parent: Option<&'a dyn Checkpoint>,
    /// What may be done to a state of another exactness class.
    pub policy: Restore,
}

/// A state that can be continued from; immutable, shared.
pub trait Checkpoint: Send + Sync + Any {
    /// Tokens it holds.
    fn tokens(&self) -> usize;
    /// Its self-describing bytes.
    fn to_bytes(&self) -> Result<Vec<u8>>;
    /// The same, compressed, or without what a parent has too; a checkpoint without weights has nothing to leave out.
    fn to_bytes_with(&self, compress: bool, parent: Option<&dyn Checkpoint>) -> Result<Vec<u8>> {
        let _ = (compress, parent);
        self.to_bytes()
    }
    /// For the model that restores it.
    fn as_any(&self) -> &dyn Any;
}

/// One of several values that continue the same sequence.
pub struct Branch<'a> {
    /// A JSON array of blocks.
    pub blocks: &'a Value,
    /// The type.
    pub ty: &'a Value,
    /// The request's options.
    pub options: &'a Value,
    /// Ends this one alone.
    pub cancel: &'a CancelToken,
}

/// An adapter of a model; immutable, shared.
pub trait Adapter: Send + Sync + Any {
    /// A JSON object that describes it.
    fn info(&self) -> Value;
    /// For the session that uses it.
    fn as_any(&self) -> &dyn Any;
}

/// One sequence, used by one thread at a time. A call that fails leaves it unusable: whoever needs it as it
/// was calls on a fork.
pub trait Session: Send {
    /// Tokens it holds.
    fn tokens(&self) -> usize;
    /// Appends blocks (a JSON array), or makes them the whole context.
    fn append(
        &mut self,
        blocks: &Value,
        replace: bool,
        cancel: &CancelToken,
        on_prefill: OnPrefill<'_>,
    ) -> Result<()>;
    /// Removes the tokens of a range; what follows them is computed again.
    fn cut(&mut self, range: Range<usize>, cancel: &CancelToken, on_prefill: OnPrefill<'_>) -> Result<()>;
    /// Starts values side by side, each on a copy of this sequence.
    fn generate_many(&self, branches: &[Branch<'_>]) -> Result<Vec<Box<dyn Generation>>>;
    /// Runs with these adapters and their scales from now on, and its tokens again.
    fn adapt(
        &mut self,
        adapters: &[(Arc<dyn Adapter>, f32)],
        cancel: &CancelToken,
        on_prefill: OnPrefill<'_>,
    ) -> Result<()> {
        let _ = (cancel, on_prefill);
        match adapters.is_empty() {
            true => Ok(()),
            false => Err(Error::unsupported("adapter", "this model has no weights to adapt")),
        }
    }
    /// A copy that shares pages.
    fn fork(&self) -> Result<Box<dyn Session>>;
    /// The state now.
    fn checkpoint(&self) -> Result<Arc<dyn Checkpoint>>;
    /// Whether the type and the options (JSON) make a request, as far as that shows without a model, and as long as it is
    /// not cancelled.
    fn check(&self, ty: &Value, options: &Value, cancel: &CancelToken) -> Result<()>;
    /// Starts a value of the type (JSON; absent: goes on with the value that the checkpoint was taken in).
    fn generate(
        self: Box<Self>,
        ty: Option<&Value>,
        options: &Value,
        cancel: &CancelToken,
    ) -> Result<Box<dyn Generation>>;
}

/// What happened since the last event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Context tokens computed.
    Prefill {
        /// Tokens done.
        done: usize,
        /// Tokens in all.
        total: usize,
    },
    /// One token of the value.
    Token {
        /// Its id.
        id: u32,
        /// Its text: whole UTF-8 characters, possibly none yet.
        text: String,
        /// Whether the type left no choice.
        forced: bool,
    },
    /// Text that had been held back and became final without a further token.
    Text {
        /// The text.
        text: String,
    },
    /// The value so far.
    Partial {
        /// JSON pointer of the value that is being written.
        path: String,
        /// JSON that parses.
        json: String,
        /// Bytes of it that stay.
        final_bytes: usize,
    },
    /// What the next token is chosen from.
    Candidates {
        /// A JSON array.
        json: String,
    },
}

/// A value in the making; pulled.
pub trait Generation: Send {
    /// The next event, `None` once the value is whole.
    fn next(&mut self) -> Result<Option<Event>>;
    /// The state between two tokens.
    fn checkpoint(&mut self) -> Result<Arc<dyn Checkpoint>>;
    /// The value and the sequence that ends with it.
    fn finish(self: Box<Self>) -> Result<(Output, Box<dyn Session>)>;
}

/// A finished value.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The value.
    pub value: Value,
    /// Its text as generated.
    pub text: String,
    /// `complete`, `stop` or `length`.
    pub finish: String,
    /// Token counts and times, as a JSON object.
    pub usage: Value,
    /// How sure the model was, if it was asked: a JSON object.
    pub confidence: Option<Value>,
    /// What was taken as an annotation of the type, and tools that were left out.
    pub warnings: Vec<String>,
}
