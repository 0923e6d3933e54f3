//! What can be wrong with bytes from the other side, and the numbers errors carry.

use std::fmt;

/// Bytes that are not this protocol. Every variant is fatal for the connection, save [`WireError::Json`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The stream does not begin with [`crate::MAGIC`].
    BadMagic {
        /// The bytes found in its place (at most 8).
        found: Vec<u8>,
    },
    /// A body longer than the negotiated maximum.
    FrameTooLarge {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// A head that does not fit into its body.
    BadHeader {
        /// Bytes of head announced.
        head_len: u32,
        /// Bytes of body announced.
        body_len: u32,
    },
    /// The stream ended inside a frame.
    Truncated {
        /// Bytes of the unfinished frame that did arrive.
        have: usize,
    },
    /// A head that does not decode as its message.
    BadHead {
        /// Name of the message.
        message: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
    /// A JSON tail that is malformed or nested too deeply.
    Json {
        /// The parser's reason.
        reason: String,
    },
}

impl WireError {
    /// A short constant name, the one used by the reject vectors.
    pub fn name(&self) -> &'static str {
        match self {
            WireError::BadMagic { .. } => "bad_magic",
            WireError::FrameTooLarge { .. } => "frame_too_large",
            WireError::BadHeader { .. } => "bad_header",
            WireError::Truncated { .. } => "truncated",
            WireError::BadHead { .. } => "bad_head",
            WireError::Json { .. } => "bad_json",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::BadMagic { found } => {
                write!(
                    f,
                    "the stream does not begin with the lean magic but with {:?}",
                    String::from_utf8_lossy(found)
                )
            }
            WireError::FrameTooLarge { len, max } => {
                write!(f, "a frame of {len} bytes; at most {max} are allowed")
            }
            WireError::BadHeader { head_len, body_len } => {
                write!(f, "a head of {head_len} bytes in a body of {body_len}")
            }
            WireError::Truncated { have } => write!(f, "the stream ended {have} bytes into a frame"),
            WireError::BadHead { message, reason } => write!(f, "{message}: {reason}"),
            WireError::Json { reason } => write!(f, "JSON: {reason}"),
        }
    }
}

impl std::error::Error for WireError {}

/// Codes of errors that the protocol itself raises. All others are the engine's, unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Codes;

impl Codes {
    /// Bytes or a sequence of frames that are not this protocol; fatal on request 0.
    pub const PROTOCOL: u32 = 600;
    /// No common major or minor; the message names both sides. Fatal on request 0.
    pub const VERSION: u32 = 601;
    /// A frame with the CRITICAL flag whose kind is unknown here; ends that request only.
    pub const UNKNOWN_KIND: u32 = 602;
}

/// What an error asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Class {
    /// One of the two programs has a bug, or the versions do not match.
    Protocol = 1,
    /// The request cannot be carried out as it is.
    Input = 2,
    /// Memory, a device, a file or a limit.
    Resource = 3,
    /// The caller, a deadline or the end of the connection ended it.
    Cancelled = 4,
    /// A bug in lean.
    Internal = 5,
}

impl Class {
    /// The class of a code: the group it is numbered in.
    pub fn of_code(code: u32) -> Self {
        match code {
            100..=399 => Class::Input,
            400..=499 => Class::Resource,
            500..=599 => Class::Cancelled,
            600..=699 => Class::Protocol,
            _ => Class::Internal,
        }
    }
}
