//! The layout of a sequence's state, the same for every backend.
//!
//! A page holds [`PAGE_TOKENS`] consecutive tokens of **all** layers, in words of four bytes:
//!
//! ```text
//! for each attention layer, in plan order:
//!     K [n_kv_heads][PAGE_TOKENS][head_dim]     each head in the planes of the state's type of keys and values
//!     V [n_kv_heads][PAGE_TOKENS][head_dim]     (`kv.rs`); float32 by default
//! then, for each convolution layer, in plan order, as float32:
//!     window [taps - 1][channels]      as it was *before* the page's first token
//! ```
//!
//! The page table of a sequence is a list of pages; token `t` lives in page `t / PAGE_TOKENS`, row
//! `t % PAGE_TOKENS`. The windows at page starts are what lets a hybrid model be cut: at any page boundary.
//! The current windows (after the last token) are a separate buffer of the same layout.

use super::KvType;
use crate::error::{try_zeroed, Result};
use crate::model::plan::{Mixer, Plan};
use std::ops::Range;

pub use lean_kernels::kv::PAGE_TOKENS;

/// Where a layer's state lies, in words of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerState {
    /// K at `k`, V at `v` from the start of a page.
    Kv {
        /// Offset of K in a page.
        k: usize,
        /// Offset of V in a page.
        v: usize,
        /// Heads.
        n_kv_heads: usize,
        /// Elements of a head.
        head_dim: usize,
    },
    /// A window of `taps - 1` rows of `channels`.
    Window {
        /// Offset in the window buffer; in a page, [`StateShape::kv_elems`] is added.
        offset: usize,
        /// Rows, oldest first.
        rows: usize,
        /// Elements of a row.
        channels: usize,
    },
}

/// Sizes and offsets of a plan's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateShape {
    /// One entry a layer of the plan.
    pub layers: Vec<LayerState>,
    /// How keys and values are stored.
    pub kv: KvType,
    /// Words of a page's K and V.
    pub kv_elems: usize,
    /// Elements of all convolution windows.
    pub window_elems: usize,
}

impl StateShape {
    /// The shape of a plan's state with float32 keys and values.
    pub fn new(plan: &Plan) -> Self {
        Self::with_kv(plan, KvType::F32)
    }

    /// The same with another type of keys and values.
    pub fn with_kv(plan: &Plan, kv_type: KvType) -> Self {
        let (mut kv, mut window) = (0, 0);
        let layers = plan
            .layers
            .iter()
            .map(|layer| match &layer.mixer {
                Mixer::Attention(a) => {
                    let n = a.n_kv_heads * kv_type.head_bytes(a.head_dim) / 4;
                    let (k, v) = (kv, kv + n);
                    kv += 2 * n;
                    LayerState::Kv { k, v, n_kv_heads: a.n_kv_heads, head_dim: a.head_dim }
                }
                Mixer::ShortConv(c) => {
                    let offset = window;
                    window += (c.taps - 1) * c.channels;
                    LayerState::Window { offset, rows: c.taps - 1, channels: c.channels }
                }
            })
            .collect();
        StateShape { layers, kv: kv_type, kv_elems: kv, window_elems: window }
    }

    /// Words of a page, windows included.
    pub fn page_elems(&self) -> usize {
        self.kv_elems + self.window_elems
    }

    /// Pages that `tokens` tokens need.
    pub fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS)
    }

    /// Bytes of state that `tokens` tokens need, rounded up to pages.
    pub fn bytes_for(&self, tokens: usize) -> u64 {
        ((self.pages_for(tokens) * self.page_elems() + self.window_elems) * 4) as u64
    }

    /// Whether two shapes differ at most in how keys and values are stored.
    pub fn same_layers(&self, other: &StateShape) -> bool {
        let same = |pair: (&LayerState, &LayerState)| match pair {
            (
                LayerState::Kv { n_kv_heads: a, head_dim: b, .. },
                LayerState::Kv { n_kv_heads: c, head_dim: d, .. },
            ) => (a, b) == (c, d),
            (a, b) => a == b,
        };
        self.layers.len() == other.layers.len() && self.layers.iter().zip(&other.layers).all(same)
    }

    /// The runs of a page's bytes that belong to its first `rows` tokens, windows included, in order.
    pub fn used_bytes(&self, rows: usize) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        for layer in &self.layers {
            if let LayerState::Kv { k, v, n_kv_heads, head_dim } = *layer {
                for base in [k, v] {
                    for head in 0..n_kv_heads {
                        let at = base * 4 + head * self.kv.head_bytes(head_dim);
                        for plane in self.kv.planes(head_dim) {
                            runs.push(at + plane.offset..at + plane.offset + rows * plane.row);
                        }
                    }
                }
            }
        }
        runs.push(self.kv_elems * 4..self.page_elems() * 4);
        runs
    }
}

/// A host copy of a state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateImage {
    /// Tokens.
    pub len: usize,
    /// `pages_for(len)` pages of `page_elems` elements; rows beyond `len` are unspecified.
    pub pages: Vec<std::sync::Arc<[f32]>>,
    /// Current windows, `window_elems` elements.
    pub windows: Vec<f32>,
}

impl StateImage {
    /// The same state with keys and values stored in another type. The shapes have the same layers.
    pub fn converted(&self, from: &StateShape, to: &StateShape) -> Result<StateImage> {
        let mut pages = Vec::new();
        for (i, page) in self.pages.iter().enumerate() {
            let rows = self.len.saturating_sub(i * PAGE_TOKENS).min(PAGE_TOKENS);
            let mut out: Vec<f32> = try_zeroed(to.page_elems(), "a page of a sequence's state")?;
            out[to.kv_elems..].copy_from_slice(&page[from.kv_elems..]);
            let (source, target) = (bytemuck::cast_slice(page), bytemuck::cast_slice_mut(&mut out));
            for (a, b) in from.layers.iter().zip(&to.layers) {
                if let (
                    LayerState::Kv { k, v, n_kv_heads, head_dim },
                    LayerState::Kv { k: to_k, v: to_v, .. },
                ) = (*a, *b)
                {
                    for head in 0..n_kv_heads {
                        for (base, to_base) in [(k, to_k), (v, to_v)] {
                            let at = base * 4 + head * from.kv.head_bytes(head_dim);
                            let to_at = to_base * 4 + head * to.kv.head_bytes(head_dim);
                            convert_rows((from.kv, source, at), (to.kv, &mut *target, to_at), head_dim, rows);
                        }
                    }
                }
            }
            pages.push(out.into());
        }
        Ok(StateImage { len: self.len, pages, windows: self.windows.clone() })
    }
}

/// Rows of one head: type, a page's bytes, and where the head begins.
fn convert_rows(
    (from, source, at): (KvType, &[u8], usize),
    (to, target, to_at): (KvType, &mut [u8], usize),
    head_dim: usize,
    rows: usize,
) {
    let mut values = vec![0.0; head_dim];
    let [a, b] = from.planes(head_dim);
    let [first, second] = to.planes(head_dim);
    for row in 0..rows {
        let planes = [a, b].map(|p| &source[at + p.offset + row * p.row..][..p.row]);
        from.decode(planes, &mut values);
        // The second plane lies behind the first.
        let (head, rest) = target.split_at_mut(to_at + second.offset);
        let to_first = &mut head[to_at + first.offset + row * first.row..][..first.row];
        let to_second = &mut rest[row * second.row..][..second.row];
        to.encode(&values, [to_first, to_second]);
    }
}
