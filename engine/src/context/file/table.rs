//! The head of the file: which sections there are, how long, and their checksums.

use crate::error::{Error, Result};
use std::hash::Hasher;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"\x89LEAN\r\n\x1a";
/// The newest version that is read; the oldest that can say it is written.
pub(super) const VERSION: u32 = 2;
const TAGS: [[u8; 4]; 5] = [*b"META", *b"TOKS", *b"KV  ", *b"WIND", *b"GENR"];
const TABLE_START: usize = 16;
const ENTRY: usize = 20;
/// Bytes of the head.
pub(super) const HEADER: usize = TABLE_START + ENTRY * TAGS.len() + 8;

/// The sections, by their place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Meta,
    Tokens,
    Kv,
    Windows,
    Value,
}

impl Section {
    pub(super) const ALL: [Section; 5] =
        [Section::Meta, Section::Tokens, Section::Kv, Section::Windows, Section::Value];

    /// Its tag, for errors.
    pub(super) fn name(self) -> &'static str {
        ["META", "TOKS", "KV", "WIND", "GENR"][self as usize]
    }
}

/// What the head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) version: u32,
    /// Length and checksum of each section.
    pub(super) sections: [(usize, u64); 5],
}

fn bad(what: &str, reason: String) -> Error {
    Error::bad_checkpoint(what, reason)
}

impl Table {
    pub(super) fn len(&self, section: Section) -> usize {
        self.sections[section as usize].0
    }

    /// # Errors
    /// [`Error::BadCheckpoint`] if `hasher`, which saw a section, did not see what was written.
    pub(super) fn check(&self, section: Section, hasher: &XxHash3_64) -> Result<()> {
        if hasher.finish() == self.sections[section as usize].1 {
            return Ok(());
        }
        Err(bad(section.name(), "the checksum does not match: the file is damaged".into()))
    }

    pub(super) fn to_bytes(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&(TAGS.len() as u32).to_le_bytes());
        for (i, (tag, (len, sum))) in TAGS.iter().zip(self.sections).enumerate() {
            let entry = &mut out[TABLE_START + i * ENTRY..][..ENTRY];
            entry[..4].copy_from_slice(tag);
            entry[4..12].copy_from_slice(&(len as u64).to_le_bytes());
            entry[12..].copy_from_slice(&sum.to_le_bytes());
        }
        let digest = XxHash3_64::oneshot(&out[..HEADER - 8]);
        out[HEADER - 8..].copy_from_slice(&digest.to_le_bytes());
        out
    }

    /// The head of a file of `total` bytes, whose first ones (up to [`HEADER`]) are `bytes`. Its sections fill the file
    /// exactly.
    pub(super) fn parse(bytes: &[u8], total: u64) -> Result<Self> {
        if bytes.len() < 8 || bytes[..8] != MAGIC {
            return Err(bad("magic", "this is not a lean checkpoint".into()));
        }
        if bytes.len() < HEADER {
            return Err(bad("header", format!("{} bytes, the header alone has {HEADER}", bytes.len())));
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let version = u32_at(8);
        if !(1..=VERSION).contains(&version) {
            return Err(Error::Incompatible {
                what: "checkpoint format version".into(),
                expected: format!("1 to {VERSION}"),
                found: version.to_string(),
            });
        }
        if XxHash3_64::oneshot(&bytes[..HEADER - 8]) != u64_at(HEADER - 8) {
            return Err(bad("header", "the checksum does not match: the file is damaged".into()));
        }
        if u32_at(12) as usize != TAGS.len() {
            return Err(bad("header", format!("{} sections, expected {}", u32_at(12), TAGS.len())));
        }
        let mut rest = total.saturating_sub(HEADER as u64);
        let mut sections = [(0, 0); 5];
        for (i, tag) in TAGS.iter().enumerate() {
            let at = TABLE_START + i * ENTRY;
            let name = Section::ALL[i].name();
            if bytes[at..at + 4] != *tag {
                return Err(bad(name, "the section is missing".into()));
            }
            let len = u64_at(at + 4);
            let fits = usize::try_from(len).ok().filter(|_| len <= rest);
            let fits = fits
                .ok_or_else(|| bad(name, format!("{len} bytes, {rest} are left: the file is truncated")))?;
            sections[i] = (fits, u64_at(at + 12));
            rest -= len;
        }
        if rest > 0 {
            return Err(bad("end", format!("{rest} bytes follow the last section")));
        }
        Ok(Table { version, sections })
    }
}
