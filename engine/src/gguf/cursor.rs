//! A forward cursor over the header, where every read is checked against the file's length first.

use super::source::Source;
use crate::error::{try_zeroed, Error, Result};

/// Bytes fetched at once from a reader, so that thousands of small fields cost few system calls.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct Cursor<'a> {
    source: &'a Source,
    pos: u64,
    /// Bytes `buffer_at ..` of a source that is not in memory.
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Cursor { source, pos: 0, buffer: Vec::new(), buffer_at: 0 }
    }

    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    pub(super) fn remaining(&self) -> u64 {
        self.source.len() - self.pos
    }

    /// A [`Error::BadModel`] at the current position.
    pub(super) fn bad(&self, what: &str, reason: impl std::fmt::Display) -> Error {
        bad_at(what, self.pos, reason)
    }

    /// Fills `out`, or says that the file ends inside `what`.
    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<()> {
        if self.remaining() < out.len() as u64 {
            return Err(self.truncated(what, out.len() as u64));
        }
        if self.source.as_slice().is_some() || out.len() >= BUFFER_BYTES {
            self.source.read_at(self.pos, out)?;
        } else {
            self.fill_buffered(out)?;
        }
        self.pos += out.len() as u64;
        Ok(())
    }

    fn fill_buffered(&mut self, out: &mut [u8]) -> Result<()> {
        let end = self.buffer_at + self.buffer.len() as u64;
        if self.pos < self.buffer_at || self.pos + out.len() as u64 > end {
            let n = self.remaining().min(BUFFER_BYTES as u64) as usize;
            self.buffer.resize(n, 0);
            self.buffer_at = self.pos;
            self.source.read_at(self.pos, &mut self.buffer)?;
        }
        let at = (self.pos - self.buffer_at) as usize;
        out.copy_from_slice(&self.buffer[at..at + out.len()]);
        Ok(())
    }

    fn truncated(&self, what: &str, wanted: u64) -> Error {
        let reason = format!("the file ends here: {wanted} bytes are needed, {} are left", self.remaining());
        self.bad(what, reason)
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out, what)?;
        Ok(out)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of items that take at least `item_bytes` each in the file, and at most `limit` of them.
    pub(super) fn count(&mut self, item_bytes: u64, limit: u64, what: &str) -> Result<usize> {
        let at = self.pos;
        let n = self.u64(what)?;
        let most = self.remaining() / item_bytes.max(1);
        if n > most {
            return Err(bad_at(
                what,
                at,
                format!("{n} items cannot fit into the {} bytes left", self.remaining()),
            ));
        }
        if n > limit {
            return Err(bad_at(what, at, format!("{n} items are more than the limit of {limit}")));
        }
        usize::try_from(n).map_err(|_| bad_at(what, at, "too many items for this machine"))
    }

    /// A length-prefixed UTF-8 string.
    pub(super) fn string(&mut self, limit: u64, what: &str) -> Result<String> {
        let n = self.count(1, limit, what)?;
        let at = self.pos;
        let mut bytes = try_zeroed::<u8>(n, what)?;
        self.fill(&mut bytes, what)?;
        String::from_utf8(bytes).map_err(|e| {
            bad_at(what, at + e.utf8_error().valid_up_to() as u64, "the text is not valid UTF-8")
        })
    }
}

/// A [`Error::BadModel`] for a field at a byte offset.
pub(super) fn bad_at(what: &str, at: u64, reason: impl std::fmt::Display) -> Error {
    Error::bad_model(format_args!("{what} at byte {at}"), reason)
}

/// A name from the file as it may stand in a message: escaped, and cut when it is absurdly long.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 100;
    let mut out: String = name.chars().take(MOST).flat_map(char::escape_debug).collect();
    if name.chars().nth(MOST).is_some() {
        out.push_str("...");
    }
    out
}
