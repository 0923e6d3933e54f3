//! Sequences' states: page tables with copy-on-write.
//!
//! A page that only one table holds is written in place; a shared one is copied before its first write, and
//! only a table's last, partly filled page is ever written again. Lengths and windows change when a pass has
//! succeeded ([`States::commit`]), so that a pass that fails leaves every state as it was.

use super::scratch::Shared;
use crate::backend::{StateId, StateImage, StateShape, Updates, PAGE_TOKENS};
use crate::error::{try_zeroed_shared, Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

struct State {
    len: usize,
    pages: Vec<Arc<[f32]>>,
    windows: Arc<[f32]>,
    /// What its passes add to the weights.
    updates: Updates,
    /// A pass is using it.
    busy: bool,
    /// It was freed during a pass and goes when that ends.
    doomed: bool,
}

/// A state as a pass sees it.
pub(crate) struct Open {
    pub(crate) id: StateId,
    /// Tokens before the pass.
    pub(crate) len: usize,
    /// All pages, those for the pass's tokens included. Rows from `len` on may be written; rows before may
    /// be read. Valid until the state is committed or aborted.
    pub(crate) pages: Vec<Shared>,
    /// Windows before the pass.
    pub(crate) windows: Arc<[f32]>,
    /// What the pass adds to the weights.
    pub(crate) updates: Updates,
}

pub(crate) struct States {
    shape: StateShape,
    map: HashMap<StateId, State>,
    next: u64,
    /// Pages that were copied before a write.
    pub(crate) copied: u64,
}

impl States {
    pub(crate) fn new(shape: StateShape) -> Self {
        States { shape, map: HashMap::new(), next: 1, copied: 0 }
    }

    fn insert(&mut self, len: usize, pages: Vec<Arc<[f32]>>, windows: Arc<[f32]>) -> StateId {
        let id = StateId(self.next);
        self.next += 1;
        let updates = Updates::default();
        self.map.insert(id, State { len, pages, windows, updates, busy: false, doomed: false });
        id
    }

    /// Sets what passes over a state add to the weights. Whoever calls has checked that it fits them.
    pub(crate) fn adapt(&mut self, id: StateId, updates: &Updates) -> Result<()> {
        self.idle(id)?.updates = updates.clone();
        Ok(())
    }

    fn get(&self, id: StateId) -> Result<&State> {
        self.map.get(&id).filter(|s| !s.doomed).ok_or_else(|| unknown(id))
    }

    fn idle(&mut self, id: StateId) -> Result<&mut State> {
        let state = self.map.get_mut(&id).filter(|s| !s.doomed).ok_or_else(|| unknown(id))?;
        if state.busy {
            return Err(Error::Busy { what: format!("state {} is being extended by a pass", id.0) });
        }
        Ok(state)
    }

    pub(crate) fn create(&mut self) -> Result<StateId> {
        let windows = zeroed(self.shape.window_elems)?;
        Ok(self.insert(0, Vec::new(), windows))
    }

    pub(crate) fn free(&mut self, id: StateId) {
        match self.map.get_mut(&id) {
            Some(state) if state.busy => state.doomed = true,
            _ => drop(self.map.remove(&id)),
        }
    }

    pub(crate) fn len(&self, id: StateId) -> Result<usize> {
        Ok(self.get(id)?.len)
    }

    pub(crate) fn fork(&mut self, id: StateId) -> Result<StateId> {
        let state = self.idle(id)?;
        let (len, pages, windows) = (state.len, state.pages.clone(), state.windows.clone());
        let updates = state.updates.clone();
        let fork = self.insert(len, pages, windows);
        self.adapt(fork, &updates)?;
        Ok(fork)
    }

    pub(crate) fn truncate(&mut self, id: StateId, len: usize) -> Result<usize> {
        let (kv, windows) = (self.shape.kv_elems, self.shape.window_elems);
        let state = self.idle(id)?;
        if len >= state.len {
            return Ok(state.len);
        }
        let len = if windows == 0 { len } else { len - len % PAGE_TOKENS };
        if windows > 0 {
            // The page that begins at `len` exists, since `len` is before the end.
            let page = &state.pages[len / PAGE_TOKENS];
            state.windows = Arc::from(&page[kv..kv + windows]);
        }
        state.pages.truncate(len.div_ceil(PAGE_TOKENS));
        state.len = len;
        Ok(len)
    }

    pub(crate) fn export(&mut self, id: StateId) -> Result<StateImage> {
        let state = self.idle(id)?;
        Ok(StateImage { len: state.len, pages: state.pages.clone(), windows: state.windows.to_vec() })
    }

    pub(crate) fn import(&mut self, image: &StateImage) -> Result<StateId> {
        let bad = |what: &str, found: usize, expected: usize| {
            Err(Error::bad_checkpoint(what, format!("{found} found, {expected} expected")))
        };
        let pages = self.shape.pages_for(image.len);
        if image.pages.len() != pages {
            return bad("state pages", image.pages.len(), pages);
        }
        if let Some(page) = image.pages.iter().find(|p| p.len() != self.shape.page_elems()) {
            return bad("elements of a state page", page.len(), self.shape.page_elems());
        }
        if image.windows.len() != self.shape.window_elems {
            return bad("elements of the convolution windows", image.windows.len(), self.shape.window_elems);
        }
        Ok(self.insert(image.len, image.pages.clone(), image.windows.as_slice().into()))
    }

    /// Addresses and bytes of a state's pages and windows.
    pub(crate) fn parts(&self, id: StateId) -> Result<Vec<(u64, u64)>> {
        let state = self.get(id)?;
        let parts = state.pages.iter().chain([&state.windows]).map(|part| {
            let address = Arc::as_ptr(part);
            (address.cast::<f32>().addr() as u64, address.len() as u64 * 4)
        });
        // Plans without windows share one empty slice.
        Ok(parts.filter(|(_, bytes)| *bytes > 0).collect())
    }

    /// Bytes of all states, shared pages counted once.
    pub(crate) fn bytes(&self) -> u64 {
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for part in self.map.values().flat_map(|s| s.pages.iter().chain([&s.windows])) {
            // The raw pointer, without a reference to the floats: a pass may be writing them.
            let page = Arc::as_ptr(part);
            if seen.insert(page.cast::<f32>()) {
                bytes += page.len() as u64 * 4;
            }
        }
        bytes
    }

    /// Makes room for `tokens[i]` more tokens in each state `ids[i]` and hands the states to a pass. On error
    /// nothing has changed.
    pub(crate) fn open(&mut self, ids: &[StateId], tokens: &[usize]) -> Result<Vec<Open>> {
        let mut open: Vec<Open> = Vec::with_capacity(ids.len());
        for (&id, &tokens) in ids.iter().zip(tokens) {
            if open.iter().any(|o| o.id == id) {
                self.abort(&open);
                return Err(Error::invalid("batch", format!("state {} occurs twice", id.0)));
            }
            match self.open_one(id, tokens) {
                Ok(o) => open.push(o),
                Err(e) => {
                    self.abort(&open);
                    return Err(e);
                }
            }
        }
        Ok(open)
    }

    fn open_one(&mut self, id: StateId, tokens: usize) -> Result<Open> {
        let shape = self.shape.clone();
        let state = self.idle(id)?;
        let wanted = shape.pages_for(state.len + tokens);
        let first_written = state.len / PAGE_TOKENS;
        let copied = match grow(state, &shape, wanted) {
            Ok(copied) => copied,
            Err(e) => {
                state.pages.truncate(shape.pages_for(state.len));
                return Err(e);
            }
        };
        let pages = state
            .pages
            .iter_mut()
            .enumerate()
            .map(|(i, page)| match Arc::get_mut(page) {
                // `grow` made these this table's own.
                Some(own) if i >= first_written => Shared::new(own.as_mut_ptr()),
                _ => Shared::new(page.as_ptr().cast_mut()),
            })
            .collect();
        state.busy = true;
        let (windows, updates) = (state.windows.clone(), state.updates.clone());
        let open = Open { id, len: state.len, pages, windows, updates };
        self.copied += u64::from(copied);
        Ok(open)
    }

    /// Ends a successful pass: each state has grown by its tokens and has new windows.
    pub(crate) fn commit(&mut self, open: &[Open], tokens: &[usize], windows: Vec<Vec<f32>>) {
        for ((o, tokens), windows) in open.iter().zip(tokens).zip(windows) {
            if let Some(state) = self.map.get_mut(&o.id) {
                state.len = o.len + tokens;
                if !windows.is_empty() {
                    state.windows = windows.into();
                }
            }
            self.close(o.id);
        }
    }

    /// Ends a pass that failed: the states are as before it.
    pub(crate) fn abort(&mut self, open: &[Open]) {
        for o in open {
            let pages = self.shape.pages_for(o.len);
            if let Some(state) = self.map.get_mut(&o.id) {
                state.pages.truncate(pages);
            }
            self.close(o.id);
        }
    }

    fn close(&mut self, id: StateId) {
        if let Some(state) = self.map.get_mut(&id) {
            state.busy = false;
            if state.doomed {
                self.map.remove(&id);
            }
        }
    }
}

fn unknown(id: StateId) -> Error {
    Error::invalid("state", format!("there is no state {}", id.0))
}

/// Makes the page of the next token this table's own, adds pages up to `wanted`, and says whether that took a copy.
fn grow(state: &mut State, shape: &StateShape, wanted: usize) -> Result<bool> {
    state
        .pages
        .try_reserve(wanted.saturating_sub(state.pages.len()))
        .map_err(|_| Error::OutOfMemory { wanted: wanted as u64 * 16, what: "a page table".into() })?;
    let rows = state.len % PAGE_TOKENS;
    let mut copied = false;
    if let Some(last) = state.pages.last_mut().filter(|_| rows > 0) {
        if Arc::get_mut(last).is_none() {
            *last = copy_rows(last, shape, rows)?;
            copied = true;
        }
    }
    while state.pages.len() < wanted {
        state.pages.push(zeroed(shape.page_elems())?);
    }
    Ok(copied)
}

/// A copy of a page's first `rows` tokens and of its windows.
fn copy_rows(page: &[f32], shape: &StateShape, rows: usize) -> Result<Arc<[f32]>> {
    let mut copy = zeroed(shape.page_elems())?;
    if let Some(to) = Arc::get_mut(&mut copy) {
        let (from, to): (&[u8], &mut [u8]) = (bytemuck::cast_slice(page), bytemuck::cast_slice_mut(to));
        for run in shape.used_bytes(rows) {
            to[run.clone()].copy_from_slice(&from[run]);
        }
    }
    Ok(copy)
}

fn zeroed(elems: usize) -> Result<Arc<[f32]>> {
    try_zeroed_shared(elems, "a page of a sequence's state")
}
