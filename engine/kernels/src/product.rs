//! Weights times activations, for one token or many.
//!
//! A lane is a row. For every part of a row's columns (16 or 32, see [`formats`](crate::formats)) the products with
//! the packed numbers are summed in the order of `k`, then `scale` times that sum and `offset` times the sum of
//! the activations are added to the output, part after part. How many rows and tokens are worked on together
//! changes only which sums are in flight, never a sum, so that outputs are bit-identical for any batch.

use crate::formats::{for_format, ForFormat, Format, ROWS, SUM, UNSHIFT};
use crate::lanes::{Isa, Kernel, Lanes, LANES};
use crate::layout::Layout;
use std::marker::PhantomData;
use std::ops::Range;

/// From this many tokens on, weights are unpacked to memory once and read back for each tile of tokens, and
/// activations are laid out in tiles.
const PANEL_TOKENS: usize = 5;

/// Groups of rows that are worked on together for one token.
const GROUPS: usize = 6;

/// Ranges of rows are best a multiple of this long.
pub const ROWS_TOGETHER: usize = GROUPS * ROWS;

/// Columns that are unpacked together: with 16 rows half of a first-level cache.
const PANEL_COLS: usize = 256;

/// Rows that are unpacked together: two vectors.
const PANEL_ROWS: usize = 2 * LANES;

/// Parts of a panel at most.
const PANEL_PARTS: usize = PANEL_COLS / SUM;

/// How far ahead of a single pass over the weights they are asked for. Several groups of rows are read side by
/// side, which hides from the processor's own prefetcher that memory is read from end to end.
const PREFETCH_BYTES: usize = 4096;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Floats of scratch that a product for `n` tokens needs.
pub fn panel_elems(n: usize) -> usize {
    PANEL_ROWS * (PANEL_COLS + 2 * PANEL_PARTS + n)
}

/// Tokens of a tile, whose sums with two vectors of rows fill the registers beside weights and activations.
pub const TILE: usize = 6;

/// The tiles that `n` tokens are cut into, first token and width: sixes, then a three, then a two or a one.
pub fn tiles(n: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut t = 0;
    std::iter::from_fn(move || {
        let width = match n - t {
            0 => return None,
            w @ (1 | 2) => w,
            w => {
                if w < TILE {
                    3
                } else {
                    TILE
                }
            }
        };
        t += width;
        Some((t - width, width))
    })
}

/// Whether activations of `n` tokens are laid out in tiles.
pub fn in_tiles(n: usize) -> bool {
    n >= PANEL_TOKENS
}

/// Activations of `n` tokens, ready to be multiplied.
///
/// A row has `stride` columns, zeros behind its end. If `tiled`, a tile of `w` tokens from `t` on has column `k` of
/// token `t + i` at `t * stride + k * w + i`; otherwise rows lie one after the other.
#[derive(Clone, Copy)]
pub struct Activations {
    /// Read by formats without `Format::SHIFTED`.
    pub x: *const f32,
    /// The same times `UNSHIFT`; read by formats with `Format::SHIFTED`.
    pub unshifted: *const f32,
    /// `[n][stride / SUM]`: sums of `SUM` consecutive columns; read by formats with `Format::OFFSET`.
    pub sums: *const f32,
    /// Columns of a row.
    pub stride: usize,
    /// Tokens.
    pub n: usize,
    /// Whether rows are interleaved.
    pub tiled: bool,
}

/// Lays out `width` rows as a tile (one row: as it is).
pub struct Prepare {
    /// `[width][cols]`, readable.
    pub x: *const f32,
    /// Columns of a row of `x`.
    pub cols: usize,
    /// Rows.
    pub width: usize,
    /// `cols` rounded up to a multiple of `SUM`, at least.
    pub stride: usize,
    /// `[stride][width]`, unless nobody wants it.
    pub plain: Option<*mut f32>,
    /// `[stride][width]`, unless nobody wants it.
    pub unshifted: Option<*mut f32>,
    /// `[width][stride / SUM]`.
    pub sums: *mut f32,
}

impl Prepare {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Prepare {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let factors = L::from_array(UNSHIFT);
        for i in 0..self.width {
            for part in 0..self.stride / SUM {
                let mut sum = L::zero();
                for col in [part * SUM, part * SUM + LANES] {
                    // SAFETY: whoever built this vouches for the rows and for room for `stride` columns.
                    unsafe {
                        let rest = self.cols.saturating_sub(col);
                        let x = L::load_up_to(self.x.add(i * self.cols + col.min(self.cols)), rest);
                        sum = sum.add(x);
                        if let Some(to) = self.plain {
                            self.store(x, to, i, col);
                        }
                        if let Some(to) = self.unshifted {
                            self.store(x.mul(factors), to, i, col);
                        }
                    }
                }
                // SAFETY: as above.
                unsafe { *self.sums.add(i * (self.stride / SUM) + part) = sum.sum() };
            }
        }
    }
}

impl Prepare {
    /// # Safety
    /// `to` has room for column `col + 7` of row `i`.
    #[inline(always)]
    unsafe fn store<L: Lanes>(&self, x: L, to: *mut f32, i: usize, col: usize) {
        // SAFETY: the caller vouches for the room.
        unsafe {
            if self.width == 1 {
                return x.store(to.add(col));
            }
            for (k, x) in x.to_array().into_iter().enumerate() {
                *to.add((col + k) * self.width + i) = x;
            }
        }
    }
}

/// What to multiply: `out[t][r]` for the rows `r` of the range, `out: [n][out_stride]`; `panel:
/// [panel_elems(n)]`. The range begins with a whole group of rows and ends with one or with the matrix.
///
/// For the time of the product nobody writes the activations, nobody else touches `panel` or those columns of
/// `out`. The activations' rows are as wide as the matrix's padded ones.
pub struct Product {
    /// Of the matrix.
    pub rows: Range<usize>,
    /// The input.
    pub x: Activations,
    /// Row `t` at `t * out_stride`, column `r` for the matrix's row `r`.
    pub out: *mut f32,
    /// Elements from one row to the next.
    pub out_stride: usize,
    /// Scratch.
    pub panel: *mut f32,
}

/// The product in the format's own code.
///
/// # Safety
/// `w` holds the groups, and the product is as it says.
pub(crate) unsafe fn multiply(isa: Isa, matrix: &Layout, w: *const u8, product: &Product) {
    for_format(matrix.dtype, Untyped { isa, matrix, w, product });
}

struct Untyped<'a> {
    isa: Isa,
    matrix: &'a Layout,
    w: *const u8,
    product: &'a Product,
}

impl ForFormat for Untyped<'_> {
    type Out = ();
    fn run<F: Format + 'static>(self) {
        let Untyped { isa, matrix, w, product } = self;
        let typed = Typed::<F> {
            w,
            group_bytes: matrix.group_bytes,
            blocks: matrix.padded / F::COLS,
            p: product,
            format: PhantomData,
        };
        if !product.x.tiled {
            isa.call(typed);
        } else {
            // SAFETY: `multiply`'s caller vouches for all pointers and sizes.
            unsafe { typed.panels(isa) };
        }
    }
}

struct Typed<'a, F> {
    w: *const u8,
    group_bytes: usize,
    /// Blocks of a group.
    blocks: usize,
    p: &'a Product,
    format: PhantomData<F>,
}

/// The sum of the activations of a part that begins at column `col`.
///
/// # Safety
/// `sums` is a token's row of sums and has those of the part.
#[inline(always)]
unsafe fn part_sum<F: Format>(sums: *const f32, col: usize) -> f32 {
    const { assert!(F::PART == SUM || F::PART == 2 * SUM) };
    // SAFETY: the caller vouches for the part's sums.
    unsafe {
        let s = sums.add(col / SUM);
        if F::PART == SUM {
            *s
        } else {
            *s + *s.add(1)
        }
    }
}

/// A few tokens: weights are unpacked to registers.
impl<F: Format> Kernel for Typed<'_, F> {
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

impl<F: Format> Typed<'_, F> {
    /// `G` groups of rows at a time for `T` tokens: enough sums to hide the latency of an addition.
    ///
    /// # Safety
    /// As for [`multiply`], `n == T`, and the activations are not tiled.
    #[inline(always)]
    unsafe fn few<L: Lanes, const G: usize, const T: usize>(&self) {
        const { assert!(T < PANEL_TOKENS) };
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
    /// As for [`multiply`]; the groups are within the range.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const G: usize, const T: usize>(&self, group: usize) {
        let Activations { x, unshifted, sums, stride, .. } = self.p.x;
        let x = if F::SHIFTED { unshifted } else { x };
        let mut acc = [[L::zero(); T]; G];
        // The tile's groups are one run of memory; this much of it falls to each part.
        let run = G * F::BYTES * F::PART / F::COLS;
        // SAFETY: the groups are within the range, the columns within the rows of weights and activations.
        unsafe {
            let w = self.w.add(group * self.group_bytes);
            for part in 0..self.blocks * (F::COLS / F::PART) {
                let ahead = w.wrapping_add(part * run + PREFETCH_BYTES);
                for line in 0..run / LINE {
                    L::prefetch(ahead.wrapping_add(line * LINE));
                }
                let (col, in_block) = (part * F::PART, part % (F::COLS / F::PART));
                let block = w.add(part / (F::COLS / F::PART) * F::BYTES);
                let mut p = [[L::zero(); T]; G];
                // Opaque, or the loop would be unrolled and the unpacked numbers spilled.
                for j in 0..std::hint::black_box(F::PART / 8) {
                    let x = x.add(col + 8 * j);
                    for g in 0..G {
                        let q = F::eight::<L>(block.add(g * self.group_bytes), in_block * (F::PART / 8) + j);
                        for i in 0..8 {
                            for t in 0..T {
                                p[g][t] = q[i].mul_add(L::splat(*x.add(t * stride + i)), p[g][t]);
                            }
                        }
                    }
                }
                for g in 0..G {
                    let block = block.add(g * self.group_bytes);
                    let scale = F::scale::<L>(block, in_block);
                    for t in 0..T {
                        acc[g][t] = scale.mul_add(p[g][t], acc[g][t]);
                    }
                    if F::OFFSET {
                        let offset = F::offset::<L>(block, in_block);
                        for t in 0..T {
                            let sum = part_sum::<F>(sums.add(t * (stride / SUM)), col);
                            acc[g][t] = offset.mul_add(L::splat(sum), acc[g][t]);
                        }
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
    /// As for [`multiply`].
    unsafe fn panels(&self, isa: Isa) {
        let groups = self.p.rows.start / ROWS..self.p.rows.end.div_ceil(ROWS);
        let n = self.p.x.n;
        let step = PANEL_COLS / F::COLS;
        for group in groups.clone().step_by(2) {
            // SAFETY: the panel has room for `n` tokens behind its numbers, scales and offsets.
            let acc = unsafe { self.p.panel.add(PANEL_ROWS * (PANEL_COLS + 2 * PANEL_PARTS)) };
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
                    panel: self.p.panel,
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

/// Fills a panel: numbers `[cols][16]`, scales `[parts][16]`, offsets `[parts][16]`. A second group that is not
/// there keeps what the panel held; its results are not used.
struct Unpack<'a, F> {
    of: &'a Typed<'a, F>,
    group: usize,
    groups: usize,
    block: usize,
    blocks: usize,
}

impl<F: Format> Kernel for Unpack<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let panel = self.of.p.panel;
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
                    let scales = panel.add(PANEL_ROWS * PANEL_COLS);
                    for part in 0..F::COLS / F::PART {
                        let at = (b * (F::COLS / F::PART) + part) * PANEL_ROWS + g * LANES;
                        F::scale::<L>(block, part).store(scales.add(at));
                        F::offset::<L>(block, part).store(scales.add(PANEL_ROWS * PANEL_PARTS + at));
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

impl<F: Format> Kernel for Panel<'_, F> {
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

impl<F: Format> Panel<'_, F> {
    /// # Safety
    /// The panel is filled, and tokens `t .. t + T` are a tile.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const T: usize>(&self, t: usize) {
        let stride = self.x.stride;
        // SAFETY: tokens below `n`, columns within the panel and the activations' rows.
        unsafe {
            let x = if F::SHIFTED { self.x.unshifted } else { self.x.x }.add(t * stride + self.col * T);
            let sums = self.x.sums.add(t * (stride / SUM));
            let acc = self.acc.add(t * PANEL_ROWS);
            for part in 0..self.cols / F::PART {
                let mut p = [[L::zero(); 2]; T];
                let (mut w, mut x) = (self.panel.add(part * F::PART * PANEL_ROWS), x.add(part * F::PART * T));
                for _ in 0..F::PART {
                    let (a, b) = (L::load(w), L::load(w.add(LANES)));
                    for i in 0..T {
                        let x = L::splat(*x.add(i));
                        p[i][0] = a.mul_add(x, p[i][0]);
                        p[i][1] = b.mul_add(x, p[i][1]);
                    }
                    (w, x) = (w.add(PANEL_ROWS), x.add(T));
                }
                let scales = self.panel.add(PANEL_ROWS * (PANEL_COLS + part));
                let offsets = scales.add(PANEL_ROWS * PANEL_PARTS);
                for half in 0..2 {
                    let scale = L::load(scales.add(half * LANES));
                    let offset = L::load(offsets.add(half * LANES));
                    for i in 0..T {
                        let acc = acc.add(i * PANEL_ROWS + half * LANES);
                        let mut sum = scale.mul_add(p[i][half], L::load(acc));
                        if F::OFFSET {
                            let x = part_sum::<F>(sums.add(i * (stride / SUM)), self.col + part * F::PART);
                            sum = offset.mul_add(L::splat(x), sum);
                        }
                        sum.store(acc);
                    }
                }
            }
        }
    }
}
