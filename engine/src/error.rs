//! One error type for the whole engine.
//!
//! Every variant has a stable numeric code ([`Error::code`]) that the C ABI, the wire protocol and the
//! command line reuse unchanged. Codes are grouped: argument and type (1xx), model file (2xx), checkpoint
//! (3xx), resource and device (4xx), cancelled and timeout (5xx), internal (9xx). A code is never reused.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Result of everything in the engine that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and the numbers needed to react to it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A caller passed something unusable (100).
    #[error("{what}: {reason}")]
    InvalidArgument {
        /// The argument or option at fault.
        what: String,
        /// Why it cannot be used, and what could.
        reason: String,
    },
    /// A type expression or JSON Schema that is malformed or that cannot be enforced exactly (110).
    #[error("type error at {}: {keyword}: {reason}", place(.at))]
    Type {
        /// JSON pointer into the schema (empty at its root), or `character N` of the expression.
        at: String,
        /// The keyword or construct at fault.
        keyword: String,
        /// Why it is refused.
        reason: String,
    },
    /// The chat template failed or raised an error of its own (120).
    #[error("chat template: {reason}")]
    Template {
        /// The template engine's or the template's own message.
        reason: String,
    },
    /// The context cannot hold what was asked for; nothing was changed (130).
    #[error("context overflow: {needed} tokens are needed, {available} are available")]
    ContextOverflow {
        /// Tokens that the call needs in total.
        needed: usize,
        /// Tokens that the session's context can hold.
        available: usize,
    },
    /// The token budget cannot hold even the shortest value of the type (131).
    #[error("budget too small: the shortest value needs {needed} tokens")]
    BudgetTooSmall {
        /// Tokens of the shortest value.
        needed: usize,
    },
    // 132 was `truncated`, a budget that ran out inside a value: values are steered to their end now.
    /// A model source that could not be read (200).
    #[error("cannot read model {path}: {reason}")]
    ModelIo {
        /// The file, or a description of the source.
        path: String,
        /// The operating system's reason.
        reason: String,
    },
    /// A model file that is damaged, truncated or malformed (201).
    #[error("bad model file: {what}: {reason}")]
    BadModel {
        /// The field, tensor or byte offset at fault.
        what: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// A well-formed model that this engine cannot run (202).
    #[error("unsupported model: {what}: {reason}")]
    UnsupportedModel {
        /// Architecture, tensor or key.
        what: String,
        /// What is not supported.
        reason: String,
    },

    /// Checkpoint bytes that are damaged, truncated or malformed (300).
    #[error("bad checkpoint: {what}: {reason}")]
    BadCheckpoint {
        /// The section or field at fault.
        what: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// A well-formed checkpoint that belongs to something else (301).
    #[error("incompatible checkpoint: {what}: expected {expected}, found {found}")]
    Incompatible {
        /// Model fingerprint, exactness class, state layout, format version.
        what: String,
        /// What this model has.
        expected: String,
        /// What the checkpoint has.
        found: String,
    },

    /// An allocation that was refused (400).
    #[error("out of memory: {wanted} bytes were wanted for {what}")]
    OutOfMemory {
        /// Bytes asked for.
        wanted: u64,
        /// What they were for.
        what: String,
    },
    /// The device went away; states on it are gone, persisted checkpoints are not (401).
    #[error("device lost: {reason}")]
    DeviceLost {
        /// The driver's reason.
        reason: String,
    },
    /// The device or backend cannot do this (402).
    #[error("device: {reason}")]
    Device {
        /// What it cannot do and what can.
        reason: String,
    },
    /// Reading or writing a file other than a model failed (410).
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's reason.
        reason: String,
    },
    /// The session is in use by another call (420).
    #[error("busy: {what}")]
    Busy {
        /// What is in use, and by what.
        what: String,
    },

    /// The caller cancelled; the session is as it was before the call (500).
    #[error("cancelled")]
    Cancelled,
    /// The deadline passed; the session is as it was before the call (501).
    #[error("timed out")]
    Timeout,

    /// A bug in the engine (900).
    #[error("internal error (a bug in lean): {0}")]
    Internal(String),
    /// A panic caught at a boundary (901).
    #[error("panic (a bug in lean): {0}")]
    Panic(String),
}

/// The empty pointer has a name in messages.
fn place(at: &str) -> &str {
    if at.is_empty() {
        "the root"
    } else {
        at
    }
}

impl Error {
    /// The stable code of this error, unchanged across the C ABI and the wire.
    pub fn code(&self) -> u32 {
        match self {
            Error::InvalidArgument { .. } => 100,
            Error::Type { .. } => 110,
            Error::Template { .. } => 120,
            Error::ContextOverflow { .. } => 130,
            Error::BudgetTooSmall { .. } => 131,
            Error::ModelIo { .. } => 200,
            Error::BadModel { .. } => 201,
            Error::UnsupportedModel { .. } => 202,
            Error::BadCheckpoint { .. } => 300,
            Error::Incompatible { .. } => 301,
            Error::OutOfMemory { .. } => 400,
            Error::DeviceLost { .. } => 401,
            Error::Device { .. } => 402,
            Error::Io { .. } => 410,
            Error::Busy { .. } => 420,
            Error::Cancelled => 500,
            Error::Timeout => 501,
            Error::Internal(_) => 900,
            Error::Panic(_) => 901,
        }
    }

    /// A short constant name for the code, such as `context_overflow`.
    pub fn name(&self) -> &'static str {
        match self {
            Error::InvalidArgument { .. } => "invalid_argument",
            Error::Type { .. } => "type",
            Error::Template { .. } => "template",
            Error::ContextOverflow { .. } => "context_overflow",
            Error::BudgetTooSmall { .. } => "budget_too_small",
            Error::ModelIo { .. } => "model_io",
            Error::BadModel { .. } => "bad_model",
            Error::UnsupportedModel { .. } => "unsupported_model",
            Error::BadCheckpoint { .. } => "bad_checkpoint",
            Error::Incompatible { .. } => "incompatible",
            Error::OutOfMemory { .. } => "out_of_memory",
            Error::DeviceLost { .. } => "device_lost",
            Error::Device { .. } => "device",
            Error::Io { .. } => "io",
            Error::Busy { .. } => "busy",
            Error::Cancelled => "cancelled",
            Error::Timeout => "timeout",
            Error::Internal(_) => "internal",
            Error::Panic(_) => "panic",
        }
    }

    /// Shorthand for [`Error::InvalidArgument`].
    pub fn invalid(what: impl Display, reason: impl Display) -> Self {
        Error::InvalidArgument { what: what.to_string(), reason: reason.to_string() }
    }

    /// Shorthand for [`Error::Io`].
    pub fn io(path: impl AsRef<Path>, reason: impl Display) -> Self {
        Error::Io { path: path.as_ref().display().to_string(), reason: reason.to_string() }
    }

    /// Shorthand for [`Error::BadModel`].
    pub fn bad_model(what: impl Display, reason: impl Display) -> Self {
        Error::BadModel { what: what.to_string(), reason: reason.to_string() }
    }

    /// Shorthand for [`Error::UnsupportedModel`].
    pub fn unsupported(what: impl Display, reason: impl Display) -> Self {
        Error::UnsupportedModel { what: what.to_string(), reason: reason.to_string() }
    }

    /// Shorthand for [`Error::BadCheckpoint`].
    pub fn bad_checkpoint(what: impl Display, reason: impl Display) -> Self {
        Error::BadCheckpoint { what: what.to_string(), reason: reason.to_string() }
    }

    /// The same error of a file: its path in front of what is at fault in it.
    pub fn of_file(self, path: impl AsRef<Path>) -> Self {
        let at = |what: String| format!("{}: {what}", path.as_ref().display());
        match self {
            Error::BadModel { what, reason } => Error::BadModel { what: at(what), reason },
            Error::UnsupportedModel { what, reason } => Error::UnsupportedModel { what: at(what), reason },
            Error::BadCheckpoint { what, reason } => Error::BadCheckpoint { what: at(what), reason },
            other => other,
        }
    }

    /// Shorthand for [`Error::Type`].
    pub fn ty(at: impl Display, keyword: impl Display, reason: impl Display) -> Self {
        Error::Type { at: at.to_string(), keyword: keyword.to_string(), reason: reason.to_string() }
    }
}

/// An empty vector with room, whose allocation can fail, for sizes that come from input.
pub(crate) fn try_reserved<T>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        wanted: (len as u64).saturating_mul(std::mem::size_of::<T>() as u64),
        what: what.to_string(),
    })?;
    Ok(v)
}

/// A zeroed vector whose allocation can fail, for sizes that come from input.
pub(crate) fn try_zeroed<T: Clone + Default>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut v = try_reserved(len, what)?;
    v.resize(len, T::default());
    Ok(v)
}

/// The same in memory that can be shared. Large ones are not touched: the system gives zeros.
pub(crate) fn try_zeroed_shared<T: bytemuck::Zeroable>(len: usize, what: &str) -> Result<Arc<[T]>> {
    // `Arc` has no fallible constructor: a trial allocation of its size, header included, is given back first.
    let mut trial: Vec<T> = Vec::new();
    let header = 16usize.div_ceil(std::mem::size_of::<T>().max(1));
    trial.try_reserve_exact(len.saturating_add(header)).map_err(|_| Error::OutOfMemory {
        wanted: (len as u64).saturating_mul(std::mem::size_of::<T>() as u64),
        what: what.to_string(),
    })?;
    drop(trial);
    // SAFETY: a `Zeroable` type allows all zero bits.
    Ok(unsafe { Arc::<[T]>::new_zeroed_slice(len).assume_init() })
}
