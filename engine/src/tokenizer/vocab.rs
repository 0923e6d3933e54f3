//! The vocabulary: one flat copy of every token's bytes, and the way from bytes to id.

use crate::error::{try_zeroed, Error, Result};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Larger vocabularies than any model has (262,144 is the largest known) are damage, not data.
const MAX_TOKENS: usize = 1 << 22;
/// All tokens' bytes together; bounds offsets to 32 bits.
const MAX_BYTES: usize = 1 << 30;
const EMPTY: u32 = u32::MAX;

/// What a token is for. The numbers are GGUF's `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Part of text.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// Structure, never text.
    Control = 3,
    /// Text that is always one token, such as `<think>`.
    UserDefined = 4,
    /// A hole or padding; no text contains it.
    Unused = 5,
    /// A single byte.
    Byte = 6,
    /// Text that is spelled outside the byte alphabet: it can be decoded, but no text encodes to it. Not in files.
    Unspelled = 0,
}

impl Kind {
    pub(super) fn from_gguf(number: i64) -> Option<Self> {
        Some(match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }
}

/// Bytes and kind of every id.
pub(super) struct Vocab {
    bytes: Vec<u8>,
    /// `ends[i]` is where token i ends; it starts where its predecessor ends.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
}

impl Vocab {
    /// An empty vocabulary with room for `tokens`.
    pub(super) fn with_capacity(tokens: usize) -> Result<Self> {
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(Error::bad_model(
                "vocabulary",
                format!("{tokens} tokens (1 to {MAX_TOKENS} are possible)"),
            ));
        }
        let out_of_memory = |_| Error::OutOfMemory { wanted: tokens as u64 * 5, what: "vocabulary".into() };
        let (mut ends, mut kinds) = (Vec::new(), Vec::new());
        ends.try_reserve_exact(tokens).map_err(out_of_memory)?;
        kinds.try_reserve_exact(tokens).map_err(out_of_memory)?;
        Ok(Vocab { bytes: Vec::new(), ends, kinds })
    }

    /// Appends the next id, spelled in the byte alphabet if it is text.
    pub(super) fn push_spelled(&mut self, kind: Kind, token: &str) -> Result<()> {
        let mut kind = kind;
        let start = self.bytes.len();
        if !matches!(kind, Kind::Normal | Kind::Byte) {
            self.bytes.extend_from_slice(token.as_bytes());
        } else if !super::bytelevel::unspell(token, &mut self.bytes) {
            kind = Kind::Unspelled;
            self.bytes.extend_from_slice(token.as_bytes());
        }
        self.finish(start, kind)
    }

    /// Appends the next id with the bytes that it stands for.
    pub(super) fn push(&mut self, kind: Kind, bytes: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.finish(start, kind)
    }

    fn finish(&mut self, start: usize, kind: Kind) -> Result<()> {
        let end = u32::try_from(self.bytes.len()).ok().filter(|&end| end as usize <= MAX_BYTES);
        let Some(end) = end else {
            self.bytes.truncate(start);
            return Err(Error::bad_model(
                "vocabulary",
                format!("its tokens have more than {MAX_BYTES} bytes together"),
            ));
        };
        self.ends.push(end);
        self.kinds.push(kind);
        Ok(())
    }

    /// Whether a token is spelled in the byte alphabet as it is in text, so that merges can name it.
    pub(super) fn is_spelled(&self, id: u32) -> bool {
        let bytes = self.bytes(id);
        !bytes.is_empty()
            && match self.kind(id) {
                Some(Kind::Normal | Kind::Byte) => true,
                // Their bytes are their names, which printable ASCII spells unchanged.
                Some(Kind::UserDefined | Kind::Control | Kind::Unknown) => {
                    bytes.iter().all(u8::is_ascii_graphic)
                }
                Some(Kind::Unused | Kind::Unspelled) | None => false,
            }
    }

    /// Gives back memory that was reserved for growth.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Empty for unknown ids.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = match id.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        &self.bytes[start as usize..end as usize]
    }

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn set_kind(&mut self, id: u32, kind: Kind) {
        if let Some(k) = self.kinds.get_mut(id as usize) {
            *k = kind;
        }
    }
}

/// From bytes to id, by open addressing over ids alone: 8 bytes a token or less, the bytes stay in the [`Vocab`].
pub(super) struct ByteIndex {
    slots: Vec<u32>,
    // Keyed by the process, so that a file cannot be made to collide.
    hasher: RandomState,
}

impl ByteIndex {
    /// An index with room for `tokens` entries.
    pub(super) fn with_capacity(tokens: usize) -> Result<Self> {
        let size = (tokens.saturating_mul(3) / 2 + 2).next_power_of_two();
        let mut slots = try_zeroed::<u32>(size, "vocabulary index")?;
        slots.fill(EMPTY);
        Ok(ByteIndex { slots, hasher: RandomState::new() })
    }

    /// Adds an id, or returns the one that already has the same bytes.
    pub(super) fn insert(&mut self, vocab: &Vocab, id: u32) -> std::result::Result<(), u32> {
        let slot = self.slot(vocab, vocab.bytes(id));
        match self.slots[slot] {
            EMPTY => {
                self.slots[slot] = id;
                Ok(())
            }
            other => Err(other),
        }
    }

    pub(super) fn get(&self, vocab: &Vocab, bytes: &[u8]) -> Option<u32> {
        Some(self.slots[self.slot(vocab, bytes)]).filter(|&id| id != EMPTY)
    }

    /// The slot that holds these bytes, or the empty one where they would go. There is always an empty one:
    /// the table is built for a third more ids than are inserted.
    fn slot(&self, vocab: &Vocab, bytes: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(bytes) as usize & mask;
        while self.slots[slot] != EMPTY && vocab.bytes(self.slots[slot]) != bytes {
            slot = (slot + 1) & mask;
        }
        slot
    }
}
