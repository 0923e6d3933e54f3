//! Products with plain weights.
//!
//! A lane is a row. The products of 32 columns are summed in the order of `k`, then added to the output, part
//! after part.

use super::LINE;
use crate::activations::{tiles, Activations, TILE, TILED};
use crate::formats::{Plain, ROWS, UNIT};
use crate::lanes::{Isa, Kernel, Lanes, LANES};

/// Groups of rows that are worked on together for one token.
pub(super) const GROUPS: usize = 6;

/// Columns that are unpacked together: with 16 rows half of a first-level cache.
const PANEL_COLS: usize = 256;

/// Rows that are unpacked together: two vectors.
const PANEL_ROWS: usize = 2 * LANES;

/// How far ahead of a single pass over the weights they are asked for. Several groups of rows are read side by
/// side, which hides from the processor's own prefetcher that memory is read from end to end.
const PREFETCH_BYTES: usize = 4096;

/// Floats of scratch that a product for `n` tokens needs.
pub(super) fn scratch(n: usize) -> usize {
    PANEL_ROWS * (PANEL_COLS + n)
}

/// Weights as floats.
pub(super) enum Floats {}

type Typed<'a, F> = super::Typed<'a, F, Floats>;

/// A few tokens: weights are unpacked to registers.
impl<F: Plain> Kernel for Typed<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        // SAFETY: `multiply`'s caller vouches for all pointers and sizes.
        unsafe {
            match self.p.x.n {
                1 => self.few::<L, GROUPS, 1>(),
                2 => self.few::<L, 4, 2>(),
                3 => self.few::<L, 2, 3>(),
                4 => self.few::<L, 2, 4>(),
                _ => {}
            }
        }
    }
}

impl<F: Plain> Typed<'_, F> {
    /// A block is a part.
    const PART: () = assert!(F::COLS == UNIT);

    /// `G` groups of rows at a time for `T` tokens: enough sums to hide the latency of an addition.
    ///
    /// # Safety
    /// As for the product, `n == T`, and the activations are not tiled.
    #[inline(always)]
    unsafe fn few<L: Lanes, const G: usize, const T: usize>(&self) {
        const { assert!(T < TILED) };
        let () = Self::PART;
        let (mut group, end) = (self.p.rows.start / ROWS, self.p.rows.end.div_ceil(ROWS));
        // SAFETY: groups of the range only.
        unsafe {
            while group + G <= end {
                self.tile::<L, G, T>(group);
                group += G;
            }
            while group + 2 <= end {
                self.tile::<L, 2, T>(group);
                group += 2;
            }
            if group < end {
                self.tile::<L, 1, T>(group);
            }
        }
    }

    /// # Safety
    /// As for the product; the groups are within the range.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const G: usize, const T: usize>(&self, group: usize) {
        let Activations { x, stride, .. } = self.p.x;
        let mut acc = [[L::zero(); T]; G];
        // The tile's groups are one run of memory; this much of it falls to each part.
        let run = G * F::BYTES;
        // SAFETY: the groups are within the range, the columns within the rows of weights and activations.
        unsafe {
            let w = self.w.add(group * self.group_bytes);
            for part in 0..self.blocks {
                let ahead = w.wrapping_add(part * run + PREFETCH_BYTES);
                for line in 0..run / LINE {
                    L::prefetch(ahead.wrapping_add(line * LINE));
                }
                let block = w.add(part * F::BYTES);
                let mut p = [[L::zero(); T]; G];
                // Opaque, or the loop would be unrolled and the unpacked numbers spilled.
                for j in 0..std::hint::black_box(UNIT / 8) {
                    let x = x.add(part * UNIT + 8 * j);
                    for g in 0..G {
                        let q = F::eight::<L>(block.add(g * self.group_bytes), j);
                        for i in 0..8 {
                            for t in 0..T {
                                p[g][t] = q[i].mul_add(L::splat(*x.add(t * stride + i)), p[g][t]);
                            }
                        }
                    }
                }
                for g in 0..G {
                    for t in 0..T {
                        acc[g][t] = acc[g][t].add(p[g][t]);
                    }
                }
            }
            for g in 0..G {
                let row = (group + g) * ROWS;
                for t in 0..T {
                    acc[g][t].store_up_to(self.p.out.add(t * self.p.out_stride + row), self.p.rows.end - row);
                }
            }
        }
    }

    /// Unpacks 16 rows and some columns to memory, then multiplies them with all tokens.
    ///
    /// # Safety
    /// As for the product.
    pub(super) unsafe fn panels(&self, isa: Isa) {
        let groups = self.p.rows.start / ROWS..self.p.rows.end.div_ceil(ROWS);
        let n = self.p.x.n;
        let step = PANEL_COLS / F::COLS;
        for group in groups.clone().step_by(2) {
            // SAFETY: the panel has room for `n` tokens behind its numbers.
            let acc = unsafe { self.p.scratch.add(PANEL_ROWS * PANEL_COLS) };
            // SAFETY: as above.
            unsafe { acc.write_bytes(0, PANEL_ROWS * n) };
            for block in (0..self.blocks).step_by(step) {
                let blocks = step.min(self.blocks - block);
                isa.call(Unpack {
                    of: self,
                    group,
                    groups: groups.end.min(group + 2) - group,
                    block,
                    blocks,
                });
                isa.call(Panel {
                    x: self.p.x,
                    panel: self.p.scratch,
                    acc,
                    col: block * F::COLS,
                    cols: blocks * F::COLS,
                    of: self,
                });
            }
            let row = group * ROWS;
            let width = PANEL_ROWS.min(self.p.rows.end - row);
            for t in 0..n {
                // SAFETY: these columns of `out` are this product's.
                unsafe {
                    let out = self.p.out.add(t * self.p.out_stride + row);
                    std::ptr::copy_nonoverlapping(acc.add(t * PANEL_ROWS), out, width);
                }
            }
        }
    }
}

/// Fills a panel: numbers `[cols][16]`. A second group that is not there keeps what the panel held; its results are
/// not used.
struct Unpack<'a, F> {
    of: &'a Typed<'a, F>,
    group: usize,
    groups: usize,
    block: usize,
    blocks: usize,
}

impl<F: Plain> Kernel for Unpack<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let panel = self.of.p.scratch;
        for g in 0..self.groups {
            for b in 0..self.blocks {
                // SAFETY: the group and block are within the matrix; the panel has room for `PANEL_COLS` columns.
                unsafe {
                    let block =
                        self.of.w.add((self.group + g) * self.of.group_bytes + (self.block + b) * F::BYTES);
                    for j in 0..F::COLS / 8 {
                        let q = F::eight::<L>(block, j);
                        for (i, q) in q.iter().enumerate() {
                            q.store(panel.add((b * F::COLS + 8 * j + i) * PANEL_ROWS + g * LANES));
                        }
                    }
                }
            }
        }
    }
}

/// Multiplies a panel with all tokens, adding to `acc: [n][16]`.
struct Panel<'a, F> {
    x: Activations,
    panel: *const f32,
    acc: *mut f32,
    /// First column of the panel.
    col: usize,
    cols: usize,
    of: &'a Typed<'a, F>,
}

impl<F: Plain> Kernel for Panel<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (t, width) in tiles(self.of.p.x.n) {
            // SAFETY: the tokens are below `n`.
            unsafe {
                match width {
                    1 => self.tile::<L, 1>(t),
                    2 => self.tile::<L, 2>(t),
                    3 => self.tile::<L, 3>(t),
                    _ => self.tile::<L, TILE>(t),
                }
            }
        }
    }
}

impl<F: Plain> Panel<'_, F> {
    /// # Safety
    /// The panel is filled, and tokens `t .. t + T` are a tile.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const T: usize>(&self, t: usize) {
        let stride = self.x.stride;
        // SAFETY: tokens below `n`, columns within the panel and the activations' rows.
        unsafe {
            let x = self.x.x.add(t * stride + self.col * T);
            let acc = self.acc.add(t * PANEL_ROWS);
            for part in 0..self.cols / UNIT {
                let mut p = [[L::zero(); 2]; T];
                let (mut w, mut x) = (self.panel.add(part * UNIT * PANEL_ROWS), x.add(part * UNIT * T));
                for _ in 0..UNIT {
                    let (a, b) = (L::load(w), L::load(w.add(LANES)));
                    for i in 0..T {
                        let x = L::splat(*x.add(i));
                        p[i][0] = a.mul_add(x, p[i][0]);
                        p[i][1] = b.mul_add(x, p[i][1]);
                    }
                    (w, x) = (w.add(PANEL_ROWS), x.add(T));
                }
                for (i, p) in p.into_iter().enumerate() {
                    for (half, p) in p.into_iter().enumerate() {
                        let acc = acc.add(i * PANEL_ROWS + half * LANES);
                        L::load(acc).add(p).store(acc);
                    }
                }
            }
        }
    }
}
