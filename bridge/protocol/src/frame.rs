//! Frames: a 16-byte little-endian header, a head, a tail; and a reader that takes bytes in any cuts.

use crate::{encode_head, Message, WireError, MAGIC};

/// Bytes of a frame header: `u32 body_len, u32 request, u16 kind, u16 flags, u32 head_len`.
pub const HEADER_BYTES: usize = 16;

/// Bits of the header's `flags`. Unknown bits are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// The last frame of a request (or of an upload).
    pub const END: Flags = Flags(1);
    /// The request failed; always together with END.
    pub const ERROR: Flags = Flags(2);
    /// A receiver that does not know the kind must answer with an error instead of skipping the frame.
    pub const CRITICAL: Flags = Flags(4);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A frame header, checked against the maximum and against itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of head and tail.
    pub body_len: u32,
    /// The request it belongs to; 0 is the connection.
    pub request: u32,
    /// The message's kind.
    pub kind: u16,
    /// See [`Flags`].
    pub flags: Flags,
    /// Bytes of head.
    pub head_len: u32,
}

impl Header {
    /// Reads and checks a header; nothing has been allocated for the body by then.
    pub fn decode(b: &[u8; HEADER_BYTES], max_frame: u32) -> Result<Self, WireError> {
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u16_at = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        let h = Header {
            body_len: u32_at(0),
            request: u32_at(4),
            kind: u16_at(8),
            flags: Flags(u16_at(10)),
            head_len: u32_at(12),
        };
        if h.body_len > max_frame {
            return Err(WireError::FrameTooLarge { len: h.body_len, max: max_frame });
        }
        if h.head_len > h.body_len {
            return Err(WireError::BadHeader { head_len: h.head_len, body_len: h.body_len });
        }
        Ok(h)
    }

    /// Its 16 bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        b[0..4].copy_from_slice(&self.body_len.to_le_bytes());
        b[4..8].copy_from_slice(&self.request.to_le_bytes());
        b[8..10].copy_from_slice(&self.kind.to_le_bytes());
        b[10..12].copy_from_slice(&self.flags.0.to_le_bytes());
        b[12..16].copy_from_slice(&self.head_len.to_le_bytes());
        b
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The request it belongs to; 0 is the connection.
    pub request: u32,
    /// The message's kind.
    pub kind: u16,
    /// See [`Flags`].
    pub flags: Flags,
    head_len: usize,
    body: Vec<u8>,
}

impl Frame {
    /// A frame from a message and its tail.
    pub fn new<M: Message>(request: u32, flags: Flags, message: &M, tail: &[u8], minor: u32) -> Self {
        Self::from_parts(request, M::KIND, flags, &encode_head(message, minor), tail)
    }

    /// A frame from raw parts, also of kinds unknown here.
    pub fn from_parts(request: u32, kind: u16, flags: Flags, head: &[u8], tail: &[u8]) -> Self {
        let mut body = Vec::with_capacity(head.len() + tail.len());
        body.extend_from_slice(head);
        body.extend_from_slice(tail);
        Self { request, kind, flags, head_len: head.len(), body }
    }

    /// The encoded message.
    pub fn head(&self) -> &[u8] {
        &self.body[..self.head_len]
    }

    /// The raw bytes after it.
    pub fn tail(&self) -> &[u8] {
        &self.body[self.head_len..]
    }

    /// Bytes of head and tail: what the maximum applies to.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Appends the whole frame to `out`. The caller has checked [`Frame::body_len`] against the maximum.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let header = Header {
            body_len: self.body.len() as u32,
            request: self.request,
            kind: self.kind,
            flags: self.flags,
            head_len: self.head_len as u32,
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&self.body);
    }
}

/// Turns a byte stream, cut anywhere, into frames. It holds no more than the bytes it was given and not yet
/// given back, and what it waits for never exceeds one frame of the maximum size.
#[derive(Debug)]
pub struct FrameReader {
    max_frame: u32,
    expect_magic: bool,
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` already given back.
    used: usize,
    failed: Option<WireError>,
}

impl FrameReader {
    /// A reader for frames alone: the bridge's side.
    pub fn new(max_frame: u32) -> Self {
        Self { max_frame, expect_magic: false, buffer: Vec::new(), used: 0, failed: None }
    }

    /// A reader for a stream that begins with [`MAGIC`]: the host's side.
    pub fn with_magic(max_frame: u32) -> Self {
        Self { expect_magic: true, ..Self::new(max_frame) }
    }

    /// Changes the maximum, after the handshake.
    pub fn set_max_frame(&mut self, max_frame: u32) {
        self.max_frame = max_frame;
    }

    /// Hands over the next bytes. Call [`FrameReader::next_frame`] until it gives `None` before pushing more,
    /// and push pieces of bounded size: that bounds the memory.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` if more bytes are needed. An error is final.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let r = self.parse();
        if let Err(e) = &r {
            self.failed = Some(e.clone());
            self.buffer = Vec::new();
            self.used = 0;
        }
        r
    }

    fn parse(&mut self) -> Result<Option<Frame>, WireError> {
        if self.expect_magic && !self.take_magic()? {
            return Ok(None);
        }
        let rest = &self.buffer[self.used..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let h = Header::decode(header, self.max_frame)?;
        let Some(body) = rest.get(..h.body_len as usize) else { return Ok(None) };
        let (head, tail) = body.split_at(h.head_len as usize);
        let frame = Frame::from_parts(h.request, h.kind, h.flags, head, tail);
        self.used += HEADER_BYTES + body.len();
        Ok(Some(frame))
    }

    /// Whether the magic is behind us. A wrong byte is noticed as soon as it arrives.
    fn take_magic(&mut self) -> Result<bool, WireError> {
        let found = &self.buffer[self.used..];
        let n = found.len().min(MAGIC.len());
        if found[..n] != MAGIC[..n] {
            return Err(WireError::BadMagic { found: found[..n].to_vec() });
        }
        if n < MAGIC.len() {
            return Ok(false);
        }
        self.used += MAGIC.len();
        self.expect_magic = false;
        Ok(true)
    }

    /// To be called at the end of the stream: an unfinished frame is an error.
    pub fn finish(&self) -> Result<(), WireError> {
        match (&self.failed, self.buffer.len() - self.used) {
            (Some(e), _) => Err(e.clone()),
            (None, 0) if !self.expect_magic => Ok(()),
            (None, have) => Err(WireError::Truncated { have }),
        }
    }

    /// Bytes held.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.used
    }
}
