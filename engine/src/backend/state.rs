//! The layout of a sequence's state, the same for every backend.
//!
//! A page holds [`PAGE_TOKENS`] consecutive tokens of **all** layers, as float32:
//!
//! ```text
//! for each attention layer, in plan order:
//!     K [n_kv_heads][PAGE_TOKENS][head_dim]
//!     V [n_kv_heads][PAGE_TOKENS][head_dim]
//! then, for each convolution layer, in plan order:
//!     window [taps - 1][channels]      as it was *before* the page's first token
//! ```
//!
//! The page table of a sequence is a list of pages; token `t` lives in page `t / PAGE_TOKENS`, row
//! `t % PAGE_TOKENS`. The windows at page starts are what lets a hybrid model be cut: at any page boundary.
//! The current windows (after the last token) are a separate buffer of the same layout.

use crate::model::plan::{Mixer, Plan};

/// Tokens in a page. Small enough that the one partial page a fork copies costs microseconds, large enough
/// that attention walks long runs.
pub const PAGE_TOKENS: usize = 32;

/// Where a layer's state lies, in float32 elements.
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
    /// Elements of a page's K and V.
    pub kv_elems: usize,
    /// Elements of all convolution windows.
    pub window_elems: usize,
}

impl StateShape {
    /// The shape of a plan's state.
    pub fn new(plan: &Plan) -> Self {
        let (mut kv, mut window) = (0, 0);
        let layers = plan
            .layers
            .iter()
            .map(|layer| match &layer.mixer {
                Mixer::Attention(a) => {
                    let n = a.n_kv_heads * PAGE_TOKENS * a.head_dim;
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
        StateShape { layers, kv_elems: kv, window_elems: window }
    }

    /// Elements of a page, windows included.
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
