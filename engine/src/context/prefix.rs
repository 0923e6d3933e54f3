//! States of contexts that were computed before, for sessions that begin alike.
//!
//! A radix tree over token ids holds forks of sequences; their pages are shared with whatever they were forked
//! from. A new context takes the state that shares most with it, cut to what is shared. Without convolution
//! windows a state can be cut anywhere, so the longest of a line of contexts stands for all of them. With windows
//! a cut falls back to a page's start (at most [`PAGE_TOKENS`] - 1 tokens run again), so every end of a context
//! and of a value stays as a snapshot of its own, where nothing runs again.
//!
//! Only states that this model computed take part: what came from a checkpoint's bytes could be anything.

use super::radix::Radix;
use super::sequence::Sequence;
use crate::backend::{Backend, PAGE_TOKENS};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has to be equal, apart from the tokens, for a state to be the same: weights that were changed after
/// loading make another state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct PrefixKey {
    /// Of the adapter that is applied to the weights.
    pub adapter: Option<u64>,
}

/// Shorter contexts are not worth an entry.
const MIN_TOKENS: usize = 16;

/// Entries at most, whatever their size: bounds the tree itself.
const MAX_ENTRIES: usize = 4096;

/// Counts of a model's prefix cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PrefixStats {
    /// Contexts that were looked up.
    pub lookups: u64,
    /// Of those, contexts that found more than their session had.
    pub hits: u64,
    /// Tokens that did not have to be run because of them.
    pub tokens_reused: u64,
    /// States held.
    pub entries: u64,
    /// Bytes of those states, shared pages counted once.
    pub bytes: u64,
    /// Bytes that they may take; 0 is off.
    pub budget: u64,
    /// States that were dropped to stay within the budget.
    pub evictions: u64,
}

pub(crate) struct PrefixCache {
    backend: Arc<dyn Backend>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trees: HashMap<PrefixKey, Radix>,
    entries: HashMap<u64, Entry>,
    /// Holders of each page or window among the entries, and its bytes.
    parts: HashMap<u64, (usize, u64)>,
    next: u64,
    clock: u64,
    stats: PrefixStats,
}

struct Entry {
    key: PrefixKey,
    /// Its tokens are those that the state holds.
    seq: Sequence,
    parts: Vec<u64>,
    used: u64,
}

impl PrefixCache {
    pub fn new(backend: Arc<dyn Backend>, budget: u64) -> Self {
        let inner = Inner { stats: PrefixStats { budget, ..Default::default() }, ..Default::default() };
        PrefixCache { backend, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in between may cost an entry, not the consistency of what is handed out.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> PrefixStats {
        self.lock().stats
    }

    /// Sets the budget; what exceeds it goes. 0 empties the cache and turns it off.
    pub fn set_budget(&self, bytes: u64) {
        let mut inner = self.lock();
        inner.stats.budget = bytes;
        inner.shrink(None);
    }

    /// Drops all states.
    pub fn clear(&self) {
        let mut inner = self.lock();
        let ids: Vec<u64> = inner.entries.keys().copied().collect();
        ids.into_iter().for_each(|id| inner.remove(id));
    }

    /// A sequence that holds more of `tokens` than `own` of them, but not the last: its logits will be wanted.
    pub fn find(&self, key: PrefixKey, tokens: &[u32], own: usize) -> Option<Sequence> {
        let mut inner = self.lock();
        if inner.stats.budget == 0 {
            return None;
        }
        inner.stats.lookups += 1;
        let found = inner.trees.get(&key)?.find(tokens);
        let limit = found.common.min(tokens.len().saturating_sub(1));
        let cut = if self.has_windows() { limit - limit % PAGE_TOKENS } else { limit };
        let whole = found.prefixes.iter().rev().find(|(len, _)| *len <= limit);
        let longer = found.beyond.or_else(|| found.prefixes.last().map(|(_, id)| *id));
        let (reach, id) = match (whole, longer) {
            (Some(&(len, id)), _) if len >= cut => (len, id),
            (_, Some(id)) => (cut, id),
            _ => return None,
        };
        if reach <= own {
            return None;
        }
        inner.touch(id);
        let seq = inner.entries.get(&id)?.cut_to(reach).ok()?;
        inner.stats.hits += 1;
        inner.stats.tokens_reused += (reach - own) as u64;
        Some(seq)
    }

    /// Keeps the state of a sequence, if it is worth it. What cannot be kept is not: nothing depends on it.
    pub fn insert(&self, seq: &Sequence) {
        let mut inner = self.lock();
        if inner.stats.budget > 0 && seq.computed_here() {
            // Without room for a fork there is none for a cache.
            let _ = self.try_insert(&mut inner, seq);
        }
    }

    fn try_insert(&self, inner: &mut Inner, seq: &Sequence) -> Result<()> {
        let key = seq.prefix_key();
        let filled = seq.filled()?;
        let Some(tokens) = seq.tokens.get(..filled).filter(|t| t.len() >= MIN_TOKENS) else { return Ok(()) };
        let found = inner.trees.entry(key).or_insert_with(Radix::new).find(tokens);
        let same = found.prefixes.last().filter(|(len, _)| *len == filled).map(|(_, id)| *id);
        let longer = found.beyond.filter(|_| found.common == filled && !self.has_windows());
        if let Some(id) = same.or(longer) {
            inner.touch(id);
            return Ok(());
        }
        let mut kept = seq.fork()?;
        kept.tokens.truncate(filled);
        let parts = self.backend.parts(kept.state())?;
        if !self.has_windows() {
            // The longer state does for these as well.
            found.prefixes.iter().for_each(|(_, id)| inner.remove(*id));
        }
        let id = inner.add(key, kept, &parts);
        inner.shrink(Some(id));
        Ok(())
    }

    fn has_windows(&self) -> bool {
        self.backend.shape().window_elems > 0
    }
}

impl Entry {
    fn cut_to(&self, len: usize) -> Result<Sequence> {
        let mut seq = self.seq.fork()?;
        seq.truncate(len)?;
        Ok(seq)
    }
}

impl Inner {
    fn touch(&mut self, id: u64) {
        self.clock += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used = self.clock;
        }
    }

    fn add(&mut self, key: PrefixKey, seq: Sequence, parts: &[(u64, u64)]) -> u64 {
        let id = self.next;
        self.next += 1;
        for &(part, bytes) in parts {
            let held = self.parts.entry(part).or_insert((0, bytes));
            held.0 += 1;
            self.stats.bytes += if held.0 == 1 { bytes } else { 0 };
        }
        let replaced = self.trees.entry(key).or_insert_with(Radix::new).insert(&seq.tokens, id);
        debug_assert_eq!(replaced, None);
        let parts = parts.iter().map(|(part, _)| *part).collect();
        self.entries.insert(id, Entry { key, seq, parts, used: 0 });
        self.touch(id);
        self.stats.entries = self.entries.len() as u64;
        id
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        if let Some(tree) = self.trees.get_mut(&entry.key) {
            tree.remove(&entry.seq.tokens);
        }
        for part in &entry.parts {
            if let Some(held) = self.parts.get_mut(part) {
                held.0 -= 1;
                if held.0 == 0 {
                    self.stats.bytes -= held.1;
                    self.parts.remove(part);
                }
            }
        }
        self.stats.entries = self.entries.len() as u64;
    }

    /// Drops the least recently used until the budget holds. `new` came last and goes last.
    fn shrink(&mut self, new: Option<u64>) {
        while self.stats.bytes > self.stats.budget || self.entries.len() > MAX_ENTRIES {
            let oldest = self.entries.iter().filter(|(id, _)| Some(**id) != new).min_by_key(|(_, e)| e.used);
            let Some(id) = oldest.map(|(id, _)| *id).or(new) else { return };
            self.remove(id);
            self.stats.evictions += 1;
        }
    }
}
