//! Errors as they travel.

use lean_engine::Error;
use lean_protocol::messages::Failed;
use lean_protocol::{Class, Codes, WireError};
use serde_json::{json, Value};

/// Characters of a message: error frames must fit the smallest frame, with room for the numbers.
const MESSAGE_CHARS: usize = 600;

/// What an ERROR frame says.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub code: u32,
    pub name: &'static str,
    pub retryable: bool,
    pub message: String,
    /// The error's own numbers, if it has any. Boxed: this struct is in every result.
    pub detail: Option<Box<Value>>,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::wire(Codes::PROTOCOL, "protocol", message.into())
    }

    pub fn version(message: String) -> Self {
        Self::wire(Codes::VERSION, "version", message)
    }

    pub fn unknown_kind(kind: u16) -> Self {
        Self::wire(
            Codes::UNKNOWN_KIND,
            "unknown_kind",
            format!("this bridge does not know requests of kind {kind}"),
        )
    }

    fn wire(code: u32, name: &'static str, message: String) -> Self {
        Self { code, name, retryable: false, message, detail: None }
    }

    pub fn head(&self) -> Failed {
        Failed {
            code: self.code,
            class: Class::of_code(self.code) as u32,
            retryable: self.retryable,
            name: self.name.into(),
            message: shorten(&self.message),
        }
    }

    pub fn tail(&self) -> Vec<u8> {
        self.detail.as_ref().map(|d| d.to_string().into_bytes()).unwrap_or_default()
    }
}

fn shorten(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARS) {
        None => message.to_owned(),
        Some((at, _)) => format!("{}…", &message[..at]),
    }
}

impl From<WireError> for Failure {
    fn from(e: WireError) -> Self {
        match e {
            WireError::Json { reason } => Error::invalid("tail", reason).into(),
            other => Failure::protocol(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let retryable = matches!(
            e,
            Error::Busy { .. } | Error::OutOfMemory { .. } | Error::DeviceLost { .. } | Error::Timeout
        );
        Self {
            code: e.code(),
            name: e.name(),
            retryable,
            message: e.to_string(),
            detail: detail(&e).map(Box::new),
        }
    }
}

/// The numbers that a caller reacts to.
fn detail(e: &Error) -> Option<Value> {
    Some(match e {
        Error::InvalidArgument { what, .. } => json!({ "what": what }),
        Error::Type { at, keyword, reason } => {
            json!({ "at": at, "keyword": keyword, "reason": shorten(reason) })
        }
        Error::ContextOverflow { needed, available } => json!({ "needed": needed, "available": available }),
        Error::BudgetTooSmall { needed } => json!({ "needed": needed }),
        Error::Incompatible { what, expected, found } => {
            json!({ "what": what, "expected": expected, "found": found })
        }
        Error::OutOfMemory { wanted, .. } => json!({ "wanted": wanted }),
        _ => return None,
    })
}
