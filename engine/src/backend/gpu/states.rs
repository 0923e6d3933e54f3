//! Sequences on the device: page tables and windows; fork, truncate, export, import.

use super::device::Gpu;
use super::pass::Pass;
use super::pool::{Entry, Pool};
use super::readback::Readback;
use crate::backend::{LayerState, StateId, StateImage, StateShape, Updates, PAGE_TOKENS};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a state that travel to or from the host at a time; bounds the staging buffer.
const EXPORT_BYTES: u64 = 64 << 20;

/// One sequence.
#[derive(Debug, Clone)]
pub struct State {
    /// Tokens.
    pub len: usize,
    /// Page `t / PAGE_TOKENS` holds token `t`.
    pub pages: Vec<Entry>,
    /// Windows after the last token; `None` when the plan has none. Never written twice: every pass writes a
    /// fresh entry, so sharing needs no copy.
    pub window: Option<Entry>,
    /// Before a last pass of one token: length and window, so that it can be taken back.
    before: Option<(usize, Entry)>,
    /// What its passes add to the weights.
    pub updates: Updates,
}

/// A state after a pass that has not been submitted yet.
pub struct Grown {
    /// What it becomes.
    pub state: State,
    /// A shared partial page and the state's own copy of it.
    copy: Option<(Entry, Entry)>,
}

impl Grown {
    /// Whether a shared page was copied for it.
    pub fn copies(&self) -> bool {
        self.copy.is_some()
    }
}

/// All sequences.
pub struct States {
    shape: StateShape,
    pages: Pool,
    windows: Option<Pool>,
    live: HashMap<StateId, State>,
    next: u64,
    /// Pages that were copied before a write.
    pub copied: u64,
}

impl States {
    /// None yet.
    pub fn new(gpu: &Gpu, shape: StateShape) -> Result<Self> {
        let windows: Vec<usize> = shape.layers.iter().map(window_elems).collect();
        let kv = shape.layers.iter().map(|layer| match layer {
            LayerState::Kv { n_kv_heads, head_dim, .. } => 2 * n_kv_heads * PAGE_TOKENS * head_dim,
            LayerState::Window { .. } => window_elems(layer),
        });
        let pages = Pool::new(gpu, "pages of the state", kv.collect())?;
        let windows = match shape.window_elems {
            0 => None,
            _ => Some(Pool::new(gpu, "convolution windows", windows)?),
        };
        Ok(States { shape, pages, windows, live: HashMap::new(), next: 0, copied: 0 })
    }

    /// Grows with every replacement of the pools' buffers.
    pub fn generation(&self) -> u64 {
        self.pages.generation() + self.windows.as_ref().map_or(0, Pool::generation)
    }

    /// A layer's pages.
    pub fn pages(&self, layer: usize) -> &wgpu::Buffer {
        self.pages.buffer(layer)
    }

    /// A layer's windows; its pages where there are none.
    pub fn windows(&self, layer: usize) -> &wgpu::Buffer {
        self.windows.as_ref().unwrap_or(&self.pages).buffer(layer)
    }

    /// A state by its id.
    pub fn get(&self, id: StateId) -> Result<&State> {
        self.live.get(&id).ok_or_else(|| Error::invalid("state", format!("{} does not exist", id.0)))
    }

    /// Sets what passes over a state add to the weights. Whoever calls has checked that it fits them.
    pub fn adapt(&mut self, id: StateId, updates: &Updates) -> Result<()> {
        let unknown = || Error::invalid("state", format!("{} does not exist", id.0));
        self.live.get_mut(&id).ok_or_else(unknown)?.updates = updates.clone();
        Ok(())
    }

    /// Replaces a state's content.
    pub fn put(&mut self, id: StateId, state: State) {
        self.live.insert(id, state);
    }

    /// Ends a state.
    pub fn free(&mut self, id: StateId) {
        self.live.remove(&id);
    }

    /// Numbers and bytes of a state's entries.
    pub fn parts(&self, id: StateId) -> Result<Vec<(u64, u64)>> {
        let state = self.get(id)?;
        let part = |kind: u64, entry: &Entry, elems: usize| {
            (kind << 32 | u64::from(entry.index()), elems as u64 * 4)
        };
        let pages = state.pages.iter().map(|page| part(0, page, self.shape.page_elems()));
        let window = state.window.iter().map(|window| part(1, window, self.shape.window_elems));
        Ok(pages.chain(window).collect())
    }

    /// Bytes of all live states, shared entries once.
    pub fn bytes(&self) -> u64 {
        let windows = self.windows.as_ref().map_or(0, |w| w.used() * self.shape.window_elems);
        ((self.pages.used() * self.shape.page_elems() + windows) * 4) as u64
    }

    /// An empty state.
    pub fn create(&mut self, gpu: &Gpu) -> Result<StateId> {
        let window = self.take_window(gpu)?;
        let mut pass = Pass::new();
        if let (Some(pool), Some(entry)) = (&self.windows, &window) {
            for layer in 0..self.shape.layers.len() {
                let (at, bytes) = pool.range(layer, entry);
                pass.clear(pool.buffer(layer), at, bytes);
            }
            pass.submit(gpu)?;
        }
        Ok(self.add(State { len: 0, pages: Vec::new(), window, before: None, updates: Updates::default() }))
    }

    fn add(&mut self, state: State) -> StateId {
        let id = StateId(self.next);
        self.next += 1;
        self.live.insert(id, state);
        id
    }

    /// A state that shares all entries.
    pub fn fork(&mut self, id: StateId) -> Result<StateId> {
        let copy = self.get(id)?.clone();
        Ok(self.add(copy))
    }

    /// What a state becomes by `count` more tokens: pages of its own from the first one written, a fresh window.
    /// Nothing else changes until `put`, and dropping the result gives everything back.
    pub fn grown(&mut self, gpu: &Gpu, id: StateId, count: usize) -> Result<Grown> {
        let state = self.get(id)?;
        let len = state.len;
        let shared = state.pages.last().is_some_and(|page| Arc::strong_count(page) > 1);
        let copy_last = len % PAGE_TOKENS != 0 && shared;
        let mut pages = state.pages.clone();
        let (old_window, updates) = (state.window.clone(), state.updates.clone());
        let missing = self.shape.pages_for(len + count) - self.shape.pages_for(len);
        let mut fresh = self.pages.take(gpu, missing + usize::from(copy_last))?.into_iter();
        let window = self.take_window(gpu)?;
        let mut copy = None;
        if let (true, Some(last)) = (copy_last, pages.last_mut()) {
            if let Some(own) = fresh.next() {
                copy = Some((std::mem::replace(last, own.clone()), own));
            }
        }
        pages.extend(fresh);
        let before = match count {
            1 => old_window.map(|window| (len, window)),
            _ => None,
        };
        Ok(Grown { state: State { len: len + count, pages, window, before, updates }, copy })
    }

    /// Records the copies of shared partial pages. Only once everything is taken: a growing pool changes buffers.
    pub fn copy_pages(&self, gpu: &Gpu, pass: &mut Pass, grown: &[Grown]) -> Result<()> {
        let mut copies = grown.iter().filter_map(|g| g.copy.as_ref()).peekable();
        if copies.peek().is_none() {
            return Ok(());
        }
        // A copy within one buffer is not allowed, so it goes through another.
        let bounce = gpu.storage("copy of a page", (self.shape.page_elems() * 4) as u64)?;
        for (from, to) in copies {
            self.each_layer(|layer, at| {
                let (source, bytes) = self.pages.range(layer, from);
                let (target, _) = self.pages.range(layer, to);
                pass.copy(self.pages.buffer(layer), source, &bounce, at, bytes);
                pass.copy(&bounce, at, self.pages.buffer(layer), target, bytes);
            });
        }
        Ok(())
    }

    fn take_window(&mut self, gpu: &Gpu) -> Result<Option<Entry>> {
        match &mut self.windows {
            Some(pool) => Ok(pool.take(gpu, 1)?.pop()),
            None => Ok(None),
        }
    }

    /// Cuts to at most `len` tokens; with windows at a page boundary, or before the last token where that ran alone.
    pub fn truncate(&mut self, gpu: &Gpu, id: StateId, len: usize) -> Result<usize> {
        let old = self.get(id)?.clone();
        if len >= old.len {
            return Ok(old.len);
        }
        let (mut len, mut window) = (len, None);
        match (&self.windows, old.before) {
            (None, _) => {}
            (Some(_), Some((before, last))) if before == len => window = Some(last),
            (Some(_), _) => {
                len = len / PAGE_TOKENS * PAGE_TOKENS;
                window = self.take_window(gpu)?;
                self.restore_window(gpu, &old.pages[len / PAGE_TOKENS], window.as_ref())?;
            }
        }
        let mut pages = old.pages;
        pages.truncate(self.shape.pages_for(len));
        self.put(id, State { len, pages, window, before: None, updates: old.updates });
        Ok(len)
    }

    /// A page knows the windows before its first token.
    fn restore_window(&self, gpu: &Gpu, page: &Entry, window: Option<&Entry>) -> Result<()> {
        let (Some(pool), Some(window)) = (&self.windows, window) else { return Ok(()) };
        let mut pass = Pass::new();
        for (layer, state) in self.shape.layers.iter().enumerate() {
            if matches!(state, LayerState::Window { .. }) {
                let (from, bytes) = self.pages.range(layer, page);
                let (to, _) = pool.range(layer, window);
                pass.copy(self.pages.buffer(layer), from, pool.buffer(layer), to, bytes);
            }
        }
        pass.submit(gpu)
    }

    /// A host copy; waits for the device.
    pub fn export(&self, gpu: &Gpu, id: StateId) -> Result<StateImage> {
        let state = self.get(id)?;
        let page_bytes = (self.shape.page_elems() * 4) as u64;
        let at_once = (EXPORT_BYTES / page_bytes.max(1)).max(1) as usize;
        let mut pages = Vec::with_capacity(state.pages.len());
        for group in state.pages.chunks(at_once) {
            let staging =
                Readback::new(gpu, "state on its way to the host", page_bytes * group.len() as u64)?;
            let mut pass = Pass::new();
            for (page, n) in group.iter().zip(0..) {
                self.each_layer(|layer, at| {
                    let (from, bytes) = self.pages.range(layer, page);
                    staging.copy(&mut pass, self.pages.buffer(layer), from, n * page_bytes + at, bytes);
                });
            }
            pass.submit(gpu)?;
            staging.request();
            let all: Vec<f32> = staging.wait(gpu)?;
            pages.extend(all.chunks_exact(self.shape.page_elems()).map(|page| page.into()));
        }
        Ok(StateImage { len: state.len, pages, windows: self.export_window(gpu, state)? })
    }

    fn export_window(&self, gpu: &Gpu, state: &State) -> Result<Vec<f32>> {
        let (Some(pool), Some(entry)) = (&self.windows, &state.window) else { return Ok(Vec::new()) };
        let staging =
            Readback::new(gpu, "windows on their way to the host", (self.shape.window_elems * 4) as u64)?;
        let mut pass = Pass::new();
        for (layer, offset) in self.window_layers() {
            let (from, bytes) = pool.range(layer, entry);
            staging.copy(&mut pass, pool.buffer(layer), from, (offset * 4) as u64, bytes);
        }
        pass.submit(gpu)?;
        staging.request();
        staging.wait(gpu)
    }

    /// A state from a host copy of the same shape.
    pub fn import(&mut self, gpu: &Gpu, image: &StateImage) -> Result<StateId> {
        let fits = image.pages.len() == self.shape.pages_for(image.len)
            && image.pages.iter().all(|p| p.len() == self.shape.page_elems())
            && image.windows.len() == self.shape.window_elems;
        if !fits {
            let reason = format!(
                "{} pages for {} tokens do not have this model's shape",
                image.pages.len(),
                image.len
            );
            return Err(Error::invalid("state image", reason));
        }
        let pages = self.pages.take(gpu, image.pages.len())?;
        let window = self.take_window(gpu)?;
        let page_bytes = (self.shape.page_elems() * 4) as u64;
        let mut staged = 0;
        for (entry, content) in pages.iter().zip(&image.pages) {
            // Staging memory is given back only after a submission has run.
            if staged + page_bytes > EXPORT_BYTES && staged > 0 {
                gpu.queue.submit([]);
                super::pair::wait(gpu)?;
                staged = 0;
            }
            staged += page_bytes;
            self.each_layer(|layer, at| {
                let (to, bytes) = self.pages.range(layer, entry);
                let content = &bytemuck::cast_slice(content)[at as usize..(at + bytes) as usize];
                gpu.queue.write_buffer(self.pages.buffer(layer), to, content);
            });
        }
        if let (Some(pool), Some(entry)) = (&self.windows, &window) {
            for (layer, offset) in self.window_layers() {
                let (to, bytes) = pool.range(layer, entry);
                let content = &bytemuck::cast_slice(&image.windows)[offset * 4..offset * 4 + bytes as usize];
                gpu.queue.write_buffer(pool.buffer(layer), to, content);
            }
        }
        gpu.queue.submit([]);
        gpu.check()?;
        Ok(self.add(State { len: image.len, pages, window, before: None, updates: Updates::default() }))
    }

    /// Layers with the byte of their share in a page.
    fn each_layer(&self, mut visit: impl FnMut(usize, u64)) {
        for (layer, state) in self.shape.layers.iter().enumerate() {
            let elems = match state {
                LayerState::Kv { k, .. } => *k,
                LayerState::Window { offset, .. } => self.shape.kv_elems + offset,
            };
            visit(layer, (elems * 4) as u64);
        }
    }

    fn window_layers(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.shape.layers.iter().enumerate().filter_map(|(layer, state)| match state {
            LayerState::Window { offset, .. } => Some((layer, *offset)),
            LayerState::Kv { .. } => None,
        })
    }
}

fn window_elems(layer: &LayerState) -> usize {
    match layer {
        LayerState::Window { rows, channels, .. } => rows * channels,
        LayerState::Kv { .. } => 0,
    }
}
