//! Errors: the engine's, with their codes, and those of a bridge that cannot be found or has ended.

use lean_protocol::messages::Failed;
use lean_protocol::Class;
use serde_json::{json, Value};
use std::fmt;

/// What every call of this crate may fail with.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the engine, of the bridge or of this crate.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// A stable number, the same in every interface of lean; see [`Error::BUSY`] and the like.
    pub code: u32,
    /// The code's short name, such as `context_overflow`.
    pub name: String,
    /// What to do about it.
    pub class: Class,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// For people.
    pub message: String,
    /// The error's own numbers and words, such as `{"needed": 5, "available": 4}`; otherwise null.
    pub details: Value,
    /// How the bridge ended, where that is what went wrong.
    pub exit: Option<Box<Exit>>,
}

impl Error {
    /// Code: an argument that cannot be used.
    pub const INVALID_ARGUMENT: u32 = 100;
    /// Code: a type that cannot be enforced exactly.
    pub const TYPE: u32 = 110;
    /// Code: more tokens than the context holds.
    pub const CONTEXT_OVERFLOW: u32 = 130;
    /// Code: no value of the type fits the budget.
    pub const BUDGET_TOO_SMALL: u32 = 131;
    /// Code: a model file that cannot be read.
    pub const MODEL_IO: u32 = 200;
    /// Code: a damaged checkpoint.
    pub const BAD_CHECKPOINT: u32 = 300;
    /// Code: a checkpoint of another model.
    pub const INCOMPATIBLE: u32 = 301;
    /// Code: in use by another call.
    pub const BUSY: u32 = 420;
    /// Code: ended by its caller, or with the engine.
    pub const CANCELLED: u32 = 500;
    /// Code: later than its deadline.
    pub const TIMEOUT: u32 = 501;
    /// Code: what arrived is not this protocol.
    pub const PROTOCOL: u32 = 600;
    /// Code: there is no bridge to start.
    pub const BRIDGE_NOT_FOUND: u32 = 690;
    /// Code: the bridge ended; [`Error::exit`] says how.
    pub const BRIDGE_EXITED: u32 = 691;

    pub(crate) fn new(code: u32, name: &str, class: Class, message: impl Into<String>) -> Self {
        Self {
            code,
            name: name.into(),
            class,
            retryable: false,
            message: message.into(),
            details: Value::Null,
            exit: None,
        }
    }

    /// A wrong argument, noticed before anything was sent.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_ARGUMENT, "invalid_argument", Class::Input, message)
    }

    pub(crate) fn cancelled(message: &str) -> Self {
        Self::new(Self::CANCELLED, "cancelled", Class::Cancelled, message)
    }

    pub(crate) fn timeout() -> Self {
        Self { retryable: true, ..Self::new(Self::TIMEOUT, "timeout", Class::Cancelled, "timed out") }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(Self::PROTOCOL, "protocol", Class::Protocol, message)
    }

    pub(crate) fn damaged(what: impl fmt::Display) -> Self {
        let message = format!("the checkpoint was damaged on its way: {what}");
        Self::new(Self::BAD_CHECKPOINT, "bad_checkpoint", Class::Input, message)
    }

    pub(crate) fn not_found(message: String) -> Self {
        Self::new(Self::BRIDGE_NOT_FOUND, "bridge_not_found", Class::Resource, message)
    }

    pub(crate) fn exited(exit: Exit) -> Self {
        let message = exit.to_string();
        let details = json!({"status": exit.status, "signal": exit.signal});
        Self {
            retryable: true,
            details,
            exit: Some(Box::new(exit)),
            ..Self::new(Self::BRIDGE_EXITED, "bridge_exited", Class::Resource, message)
        }
    }

    /// The error of an ERROR frame. Its numbers are an extra: where they cannot be read, the error itself arrives.
    pub(crate) fn of_frame(failed: Failed, tail: &[u8]) -> Self {
        Self {
            code: failed.code,
            class: Class::of_code(failed.code),
            name: failed.name,
            retryable: failed.retryable,
            message: failed.message,
            details: lean_protocol::json::parse(tail).unwrap_or(Value::Null),
            exit: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// How the bridge process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exit {
    /// The exit status, if it exited.
    pub status: Option<i32>,
    /// The number of the signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The last 4 KiB that it wrote to stderr.
    pub stderr: String,
    /// In words, where it neither exited nor was killed.
    pub(crate) otherwise: String,
}

impl Exit {
    pub(crate) fn otherwise(how: impl Into<String>) -> Self {
        Self { otherwise: how.into(), ..Self::default() }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.signal) {
            (Some(status), _) => write!(f, "the bridge exited with status {status}")?,
            (None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "the bridge was killed by {name}")?,
                None => write!(f, "the bridge was killed by signal {signal}")?,
            },
            (None, None) => write!(f, "the bridge {}", self.otherwise)?,
        }
        match self.stderr.trim() {
            "" => Ok(()),
            words => write!(f, "\nIts last words:\n{words}"),
        }
    }
}

/// Those that have the same number on every Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}
