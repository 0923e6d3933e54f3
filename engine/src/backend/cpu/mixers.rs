//! The steps of a pass that read and extend sequences' states.

use super::pass::{Job, Pass, Rows};
use super::scratch::Shared;
use super::weights::{Attention, ShortConv};
use crate::backend::{LayerState, PAGE_TOKENS};
use crate::error::{Error, Result};
use lean_kernels::attention::{score_elems, Attend, Part};
use lean_kernels::conv::Convolve;
use lean_kernels::norm::RmsNorm;
use lean_kernels::rope;
use std::ops::Range;

/// Tokens of a sequence whose queries share one walk over the pages.
const QUERY_TOKENS: usize = 4;

/// From this many positions on, attention that has few heads and tokens for all threads is cut further.
const LONG: usize = 256;

/// Pages whose scores are an item then.
const PAGES_AN_ITEM: usize = 8;

/// Columns of outputs that are an item then.
const COLUMNS_AN_ITEM: usize = 32;

/// Channels of an item of a convolution.
const CHANNELS_AN_ITEM: usize = 256;

/// A token of the pass: where its row of the state lies.
#[derive(Clone, Copy)]
struct Place {
    page: Shared,
    row: usize,
}

/// An item of attention: some tokens of a sequence and one kv head.
struct Item {
    sequence: usize,
    kv_head: usize,
    from: usize,
    tokens: usize,
}

impl Pass<'_> {
    /// Cosines and sines of every token's position, for every table of frequencies.
    pub(super) fn fill_angles(&mut self) -> Result<()> {
        let weights = self.weights;
        let total: usize = weights.ropes.iter().map(|r| 2 * r.len()).sum();
        let angles = self.scratch.angles.reserve(total * self.n)?;
        let positions: Vec<usize> =
            self.sequences.iter().flat_map(|s| s.open.len..s.open.len + s.tokens.len()).collect();
        self.step_tokens(positions.len(), &|t| {
            for rope in 0..weights.ropes.len() {
                let pairs = weights.ropes[rope].len();
                // SAFETY: token `t`'s angles belong to this item.
                let both = unsafe { angles.slice(weights.angles_at(rope, positions.len(), t), 2 * pairs) };
                let (cos, sin) = both.split_at_mut(pairs);
                rope::angles(&weights.ropes[rope], positions[t], cos, sin);
            }
        })
    }

    pub(super) fn attention(&mut self, layer: usize, a: &Attention, x: Rows) -> Result<Rows> {
        let LayerState::Kv { k: k_at, v: v_at, .. } = self.shape.layers[layer] else {
            return Err(Error::Internal("an attention layer without keys and values".into()));
        };
        let (n, d) = (self.n, a.head_dim);
        let (q_width, kv_width) = (a.n_heads * d, a.n_kv_heads * d);
        let q = self.scratch.first.reserve(n * q_width)?;
        let k = self.scratch.second.reserve(n * kv_width)?;
        let v = self.scratch.third.reserve(n * kv_width)?;
        let jobs = [Job { linear: &a.q, out: q }, Job { linear: &a.k, out: k }, Job { linear: &a.v, out: v }];
        self.multiply(&jobs, x)?;
        self.store_kv(a, [q, k, v], [k_at, v_at])?;
        let out = self.scratch.mixed.reserve(n * q_width)?;
        self.attend(a, q, out, [k_at, v_at])?;
        Ok(Rows { at: out, n, cols: q_width })
    }

    /// Where each token of the pass lies in its sequence's pages.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.n);
        for s in &self.sequences {
            places.extend((s.open.len..s.open.len + s.tokens.len()).map(|position| Place {
                page: s.open.pages[position / PAGE_TOKENS],
                row: position % PAGE_TOKENS,
            }));
        }
        places
    }

    /// Norms and rotates queries and keys, and writes keys and values to the pages.
    fn store_kv(&mut self, a: &Attention, [q, k, v]: [Shared; 3], [k_at, v_at]: [usize; 2]) -> Result<()> {
        let (isa, d, n, kv) = (self.isa, a.head_dim, self.n, self.shape.kv);
        let (planes, head_bytes) = (kv.planes(d), kv.head_bytes(d));
        let places = self.places();
        let pairs = self.weights.ropes[a.rope].len();
        let weights = self.weights;
        let angles = self.scratch.angles.reserve(0)?;
        self.step_tokens(n, &|t| {
            // SAFETY: nobody writes angles during this step.
            let (cos, sin) =
                unsafe { angles.slice(weights.angles_at(a.rope, n, t), 2 * pairs) }.split_at(pairs);
            for (rows, heads, norm) in [(q, a.n_heads, &a.q_norm), (k, a.n_kv_heads, &a.k_norm)] {
                for head in 0..heads {
                    // SAFETY: token `t`'s rows belong to this item.
                    let head = unsafe { rows.slice((t * heads + head) * d, d) };
                    if let Some(norm) = norm {
                        let x = head.as_mut_ptr();
                        // SAFETY: the head is as long as the weight of its norm.
                        unsafe { RmsNorm { x, weight: &norm.weight, eps: norm.eps, out: x }.run_on(isa) };
                    }
                    rope::rotate(head, cos, sin, a.rope_style);
                }
            }
            let Place { page, row } = places[t];
            for (rows, start) in [(k, k_at), (v, v_at)] {
                for head in 0..a.n_kv_heads {
                    // SAFETY: the token's row of a page that `States::open` made this sequence's own; no other
                    // token has it.
                    unsafe {
                        let at = start * 4 + head * head_bytes;
                        let to = planes.map(|p| page.bytes(at + p.offset + row * p.row, p.row));
                        kv.encode(rows.slice((t * a.n_kv_heads + head) * d, d), to);
                    }
                }
            }
        })
    }

    fn attend(&mut self, a: &Attention, q: Shared, out: Shared, [k, v]: [usize; 2]) -> Result<()> {
        let (isa, kv, d, group) = (self.isa, self.shape.kv, a.head_dim, a.n_heads / a.n_kv_heads);
        let stride = a.n_heads * d;
        let mut items = Vec::new();
        let mut scores_stride = 0;
        for (sequence, s) in self.sequences.iter().enumerate() {
            for from in (0..s.tokens.len()).step_by(QUERY_TOKENS) {
                let tokens = QUERY_TOKENS.min(s.tokens.len() - from);
                items.extend((0..a.n_kv_heads).map(|kv_head| Item { sequence, kv_head, from, tokens }));
            }
            let last = s.open.len + s.tokens.len() - 1;
            scores_stride = scores_stride.max(score_elems(last, a.window, QUERY_TOKENS));
        }
        let each = scores_stride * group * QUERY_TOKENS;
        let threads = self.pool.threads();
        let cut = threads > 1 && items.len() < 4 * threads && scores_stride >= LONG;
        let scores = self.scratch.scores.reserve(each * if cut { items.len() } else { threads })?;
        let sequences: Vec<(usize, usize, &[Shared])> =
            self.sequences.iter().map(|s| (s.open.len, s.first, s.open.pages.as_slice())).collect();
        // An item's attention with the scores that begin at `each` times `part`.
        let attention = |item: usize, part: usize| {
            let Item { sequence, kv_head, from, tokens } = items[item];
            let (len, first, pages) = sequences[sequence];
            let at = (first + from) * stride + kv_head * group * d;
            let head = kv_head * kv.head_bytes(d);
            // SAFETY: the heads lie within both buffers, the scores within theirs.
            let (q, out, scores) = unsafe { (q.at(at), out.at(at), scores.at(part * each)) };
            Attend {
                kv,
                pages,
                k: 4 * k + head,
                v: 4 * v + head,
                head_dim: d,
                scale: a.scale,
                window: a.window,
                q,
                out,
                stride,
                group,
                tokens,
                position: len + from,
                scores,
                scores_stride,
            }
        };
        if !cut {
            // SAFETY: these heads of these tokens are this item's, the scores this thread's; keys and values of
            // all positions up to the tokens' own were written by earlier passes or the step before.
            return self.step(items.len(), &|item, thread| unsafe {
                attention(item, thread).run_on(isa, Part::All)
            });
        }
        let parts = |item: usize, of: usize, each: usize, part: fn(Range<usize>) -> Part| {
            (0..of).step_by(each).map(move |from| (item, part(from..of.min(from + each))))
        };
        let mut steps = [Vec::new(), Vec::new(), Vec::new()];
        for item in 0..items.len() {
            let whole = attention(item, item);
            steps[0].extend(parts(item, whole.pages_seen(), PAGES_AN_ITEM, Part::Scores));
            steps[1].extend(parts(item, group * whole.tokens, 1, Part::Weights));
            steps[2].extend(parts(item, d, COLUMNS_AN_ITEM, Part::Values));
        }
        for parts in &steps {
            self.step(parts.len(), &|i, _| {
                let (item, part) = &parts[i];
                // SAFETY: as above, the scores being the item's; the parts of a step write different scores or columns.
                unsafe { attention(*item, *item).run_on(isa, part.clone()) };
            })?;
        }
        Ok(())
    }

    pub(super) fn short_conv(&mut self, layer: usize, c: &ShortConv, x: Rows) -> Result<Rows> {
        let LayerState::Window { offset, rows, channels } = self.shape.layers[layer] else {
            return Err(Error::Internal("a convolution layer without a window".into()));
        };
        let n = self.n;
        let bcx = self.scratch.first.reserve(n * 3 * channels)?;
        self.multiply(&[Job { linear: &c.in_proj, out: bcx }], x)?;
        // Every sequence has its window in front of its tokens.
        let u = self.scratch.second.reserve((n + rows * self.sequences.len()) * channels)?;
        let y = self.scratch.mixed.reserve(n * channels)?;
        let mut starts = Vec::with_capacity(self.sequences.len());
        for (i, s) in self.sequences.iter().enumerate() {
            let start = (s.first + i * rows) * channels;
            // SAFETY: within `u`; no step is running.
            let window = unsafe { u.slice(start, rows * channels) };
            window.copy_from_slice(&s.open.windows[offset..offset + rows * channels]);
            starts.push((start, s.first, s.tokens.len()));
        }
        let (isa, chunks) = (self.isa, channels.div_ceil(CHANNELS_AN_ITEM));
        self.step(starts.len() * chunks, &|item, _| {
            let (start, first, tokens) = starts[item / chunks];
            let from = item % chunks * CHANNELS_AN_ITEM;
            // SAFETY: these channels of this sequence's rows are this item's.
            unsafe {
                Convolve {
                    channels: from..channels.min(from + CHANNELS_AN_ITEM),
                    width: channels,
                    tokens,
                    taps: c.taps,
                    kernel: c.kernel.as_ptr(),
                    bcx: bcx.at(first * 3 * channels),
                    u: u.at(start),
                    y: y.at(first * channels),
                }
                .run_on(isa);
            }
        })?;
        self.keep_windows(u, &starts, offset, rows * channels, channels);
        Ok(Rows { at: y, n, cols: channels })
    }

    /// Copies the window before each page's first token to that page, and the one after the last token aside.
    fn keep_windows(
        &mut self,
        u: Shared,
        starts: &[(usize, usize, usize)],
        offset: usize,
        size: usize,
        channels: usize,
    ) {
        let kv = self.shape.kv_elems;
        for (s, &(start, _, tokens)) in self.sequences.iter_mut().zip(starts) {
            // The window before token `t` of the pass begins at row `t` of `u`.
            let window = |t: usize| {
                // SAFETY: rows `t .. t + taps - 1` of this sequence; no step is running.
                unsafe { u.slice(start + t * channels, size) }
            };
            let mut t = s.open.len.next_multiple_of(PAGE_TOKENS) - s.open.len;
            while t < tokens {
                let page = s.open.pages[(s.open.len + t) / PAGE_TOKENS];
                // SAFETY: the page begins with a token of this pass, so `States::open` made it this sequence's own.
                let to = unsafe { page.slice(kv + offset, size) };
                to.copy_from_slice(window(t));
                t += PAGE_TOKENS;
            }
            s.windows[offset..offset + size].copy_from_slice(window(tokens));
        }
    }
}
