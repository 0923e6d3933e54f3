//! The lean wire protocol: frames, messages and their codec. It knows no engine and does no I/O.
//!
//! The specification is `bridge/PROTOCOL.md`; the vectors every implementation runs are in `tests/wire`.
//! - [`frame`]: the 16-byte header and an incremental reader with bounded memory;
//! - [`wire`]: the postcard subset that message heads are written in;
//! - [`messages`]: every message, its kind and its fields, declared once;
//! - [`json`]: the depth limit for JSON tails;
//! - [`crc32`]: the digest of a blob that travels in chunks.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod crc32;
mod error;
pub mod frame;
pub mod json;
pub mod message;
pub mod messages;
pub mod wire;

pub use error::{Class, Codes, WireError};
pub use frame::{Flags, Frame, FrameReader, Header, HEADER_BYTES};
pub use message::{decode_head, encode_head, Direction, Message, MessageSpec};

/// Written by the bridge before its first frame, in the style of PNG: a non-ASCII byte, the name, a CR LF
/// pair and an end-of-file character, so that text on the stream or a newline conversion shows at once.
pub const MAGIC: [u8; 8] = *b"\x89LEAN\r\n\x1a";

/// Two sides with different majors cannot talk.
pub const MAJOR: u32 = 1;
/// The oldest minor this library still speaks.
pub const MINOR_MIN: u32 = 0;
/// The newest minor this library speaks. A message field is appended together with a new minor.
pub const MINOR_MAX: u32 = 0;

/// Largest body of a frame unless the handshake lowers it: room for a 256 KiB chunk and for any sane prompt,
/// little enough that a damaged length cannot hurt.
pub const MAX_FRAME_DEFAULT: u32 = 1 << 20;
/// The handshake may not go below this: every head and every error message fits.
pub const MAX_FRAME_FLOOR: u32 = 4096;
/// Tail bytes of one chunk of a blob, where the maximum frame allows it.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Nesting of JSON tails: deeper documents are refused before they are parsed.
pub const JSON_DEPTH_MAX: usize = 64;
