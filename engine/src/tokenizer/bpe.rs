//! Byte-pair encoding, on raw bytes or on characters.
//!
//! Gives the ids of Hugging Face's `tokenizers` (`models::BPE` without dropout and unknown token): the pair of
//! lowest rank merges first, the leftmost of equals; bytes that the vocabulary lacks are dropped.

use super::sentencepiece::Chars;
use super::vocab::{ByteIndex, Kind, Vocab};
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;

/// What two neighbours become.
#[derive(Debug, Clone, Copy)]
pub(super) struct Merge {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) rank: u32,
    pub(super) into: u32,
}

/// What the first symbols of a word are.
pub(super) enum Alphabet {
    /// Bytes: the token of each, or `NONE`. A word is what it stands for.
    Bytes(Box<[u32; 256]>),
    /// Characters, with bytes for those that have no token.
    Chars(Chars),
}

/// Merges, sorted by (left, right), and how bytes become the first symbols.
pub(super) struct Bpe {
    merges: Vec<Merge>,
    /// `merges[first[l]..first[l + 1]]` are those whose left side is token l.
    first: Vec<u32>,
    alphabet: Alphabet,
    /// Whole words are looked up before merging (`ignore_merges`): the index to do so.
    whole_words: Option<ByteIndex>,
}

/// Collects merges against a vocabulary.
pub(super) struct BpeBuilder<'v> {
    vocab: &'v Vocab,
    index: ByteIndex,
    /// Control tokens: merges that lead to them are left out, because text never becomes one.
    control: ByteIndex,
    merges: Vec<Merge>,
    joined: Vec<u8>,
}

impl<'v> BpeBuilder<'v> {
    /// For `merges` merges.
    pub(super) fn new(vocab: &'v Vocab, merges: usize) -> Result<Self> {
        let mut index = ByteIndex::with_capacity(vocab.len())?;
        let ids = |wanted: fn(Kind) -> bool| {
            (0..vocab.len() as u32)
                .filter(move |&id| vocab.is_spelled(id) && vocab.kind(id).is_some_and(wanted))
        };
        for id in ids(|kind| matches!(kind, Kind::Normal | Kind::Byte)) {
            index.insert(vocab, id).map_err(|other| {
                let text = String::from_utf8_lossy(vocab.bytes(id)).into_owned();
                Error::bad_model("vocabulary", format!("tokens {other} and {id} are both {text:?}"))
            })?;
        }
        for id in ids(|kind| kind == Kind::UserDefined) {
            // An ordinary token of the same spelling goes first.
            let _ = index.insert(vocab, id);
        }
        let is_control = |kind| matches!(kind, Kind::Control | Kind::Unknown);
        let mut control = ByteIndex::with_capacity(ids(is_control).count())?;
        for id in ids(is_control) {
            let _ = control.insert(vocab, id);
        }
        let mut list = Vec::new();
        list.try_reserve_exact(merges).map_err(|_| Error::OutOfMemory {
            wanted: (merges as u64).saturating_mul(std::mem::size_of::<Merge>() as u64),
            what: "merges".into(),
        })?;
        Ok(BpeBuilder { vocab, index, control, merges: list, joined: Vec::new() })
    }

    /// Adds the next merge in order of rank.
    pub(super) fn merge(&mut self, rank: usize, left: &[u8], right: &[u8]) -> Result<()> {
        self.joined.clear();
        self.joined.extend_from_slice(left);
        self.joined.extend_from_slice(right);
        let (Some(left), Some(right), Some(into)) =
            (self.find(rank, left)?, self.find(rank, right)?, self.find(rank, &self.joined)?)
        else {
            return Ok(());
        };
        self.merges.push(Merge { left, right, rank: rank as u32, into });
        Ok(())
    }

    /// `None` for a control token.
    fn find(&self, rank: usize, bytes: &[u8]) -> Result<Option<u32>> {
        match self.index.get(self.vocab, bytes) {
            Some(id) => Ok(Some(id)),
            None if self.control.get(self.vocab, bytes).is_some() => Ok(None),
            None => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                Err(Error::bad_model(format!("merge {rank}"), format!("no token is {text:?}")))
            }
        }
    }

    /// `ignore_merges`: a word that is a token as a whole is that token, whatever the merges would make of it.
    pub(super) fn build(self, ignore_merges: bool) -> Result<Bpe> {
        let mut byte_ids = [NONE; 256];
        for (byte, id) in (0..=255u8).zip(&mut byte_ids) {
            *id = self.index.get(self.vocab, &[byte]).unwrap_or(NONE);
        }
        let whole_words = ignore_merges.then_some(self.index);
        Bpe::new(self.merges, self.vocab.len(), Alphabet::Bytes(Box::new(byte_ids)), whole_words)
    }
}

/// A symbol of the word being merged; a doubly linked list in a vector.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    prev: u32,
    next: u32,
}

impl Bpe {
    /// From merges in any order, between ids below `tokens`.
    pub(super) fn new(
        mut merges: Vec<Merge>,
        tokens: usize,
        alphabet: Alphabet,
        whole_words: Option<ByteIndex>,
    ) -> Result<Bpe> {
        // Of equal pairs the last one counts, as in the reference.
        merges.sort_unstable_by_key(|m| (m.left, m.right, Reverse(m.rank)));
        merges.dedup_by_key(|m| (m.left, m.right));
        let mut first = crate::error::try_zeroed::<u32>(tokens + 1, "merges")?;
        for m in &merges {
            first[m.left as usize + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        Ok(Bpe { merges, first, alphabet, whole_words })
    }

    fn find(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let range = self.first[left as usize] as usize..self.first[left as usize + 1] as usize;
        let merges = &self.merges[range];
        let at = merges.binary_search_by_key(&right, |m| m.right).ok()?;
        Some((merges[at].rank, merges[at].into))
    }

    /// Appends the ids of one word.
    pub(super) fn encode(&self, vocab: &Vocab, word: &[u8], ids: &mut Vec<u32>) {
        if let Some(id) = self.whole_words.as_ref().and_then(|index| index.get(vocab, word)) {
            ids.push(id);
            return;
        }
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let push = |id: u32| {
            let at = symbols.len() as u32;
            symbols.push(Symbol { id, prev: at.wrapping_sub(1), next: at + 1 });
        };
        match &self.alphabet {
            Alphabet::Bytes(ids) => {
                word.iter().map(|&byte| ids[usize::from(byte)]).filter(|&id| id != NONE).for_each(push);
            }
            // Words are cut from text, so this copies nothing.
            Alphabet::Chars(chars) => chars.symbols(&String::from_utf8_lossy(word), push),
        }
        let Some(last) = symbols.last_mut() else { return };
        last.next = NONE;
        self.merge_all(&mut symbols);
        let mut at = 0;
        while at != NONE {
            let symbol = symbols[at as usize];
            ids.push(symbol.id);
            at = symbol.next;
        }
    }

    /// Merges until no pair is left: n log n for a word of n bytes.
    fn merge_all(&self, symbols: &mut [Symbol]) {
        let mut queue: BinaryHeap<Reverse<(u32, u32, u32)>> = BinaryHeap::with_capacity(symbols.len());
        for at in 1..symbols.len() {
            if let Some((rank, into)) = self.find(symbols[at - 1].id, symbols[at].id) {
                queue.push(Reverse((rank, at as u32 - 1, into)));
            }
        }
        while let Some(Reverse((rank, at, into))) = queue.pop() {
            let left = symbols[at as usize];
            // A symbol that was merged away, or whose neighbour has changed since: the entry is stale.
            if left.id == NONE || left.next == NONE {
                continue;
            }
            let right = symbols[left.next as usize];
            if self.find(left.id, right.id) != Some((rank, into)) {
                continue;
            }
            symbols[left.next as usize].id = NONE;
            symbols[at as usize] = Symbol { id: into, prev: left.prev, next: right.next };
            if right.next != NONE {
                symbols[right.next as usize].prev = at;
                if let Some((rank, into)) = self.find(into, symbols[right.next as usize].id) {
                    queue.push(Reverse((rank, at, into)));
                }
            }
            if left.prev != NONE {
                if let Some((rank, into)) = self.find(symbols[left.prev as usize].id, into) {
                    queue.push(Reverse((rank, left.prev, into)));
                }
            }
        }
    }
}
