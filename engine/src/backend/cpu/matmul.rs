//! Weights times activations, for one token or many.
//!
//! Every output is one sum over `k` with eight lanes: lane `l` adds the products of `k = l, l + 8, l + 16, ...`
//! in that order, and the lanes are added by [`Lanes::sum`]. How many rows and tokens are worked on together
//! changes only which sums are in flight, never a sum, so that outputs are bit-identical for any batch.

use super::formats::{for_format, ForFormat, Format, UNIT};
use super::lanes::{Isa, Kernel, Lanes, LANES};
use crate::quant::DType;
use std::marker::PhantomData;
use std::ops::Range;

/// Rows that are unpacked together for many tokens.
const PANEL_ROWS: usize = 4;

/// From this many tokens on, rows are unpacked to memory once and read back for each tile of tokens.
const PANEL_TOKENS: usize = 5;

/// How far ahead of a single pass over the weights they are asked for. Rows are short and several are read side
/// by side, which hides from the processor's own prefetcher that memory is read from end to end.
const PREFETCH_BYTES: usize = 4096;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Floats of scratch that a product with rows of `padded` elements needs.
pub(crate) fn panel_elems(padded: usize) -> usize {
    PANEL_ROWS * padded
}

/// What to multiply. `x: [n][x_stride]`, of which `padded` are read; `out: [n][out_stride]`, of which the
/// range's columns are written; `panel: [panel_elems(padded)]`.
///
/// For the time of the product nobody writes `x`, nobody else touches `panel` or those columns of `out`.
#[derive(Clone)]
pub(crate) struct Product {
    pub(crate) rows: Range<usize>,
    pub(crate) x: *const f32,
    pub(crate) x_stride: usize,
    pub(crate) n: usize,
    pub(crate) out: *mut f32,
    pub(crate) out_stride: usize,
    pub(crate) panel: *mut f32,
}

/// # Safety
/// `w` holds the range's rows, each `row_bytes` long and `padded` elements wide, and the product is as it says.
pub(super) unsafe fn multiply(isa: Isa, dtype: DType, w: *const u8, row_bytes: usize, padded: usize, product: Product) {
    for_format(dtype, Untyped { isa, w, row_bytes, units: padded / UNIT, product });
}

struct Untyped {
    isa: Isa,
    w: *const u8,
    row_bytes: usize,
    units: usize,
    product: Product,
}

impl ForFormat for Untyped {
    type Out = ();
    fn run<F: Format>(self) {
        let Untyped { isa, w, row_bytes, units, product } = self;
        isa.call(Typed::<F> { w, row_bytes, units, p: product, format: PhantomData });
    }
}

struct Typed<F> {
    w: *const u8,
    row_bytes: usize,
    units: usize,
    p: Product,
    format: PhantomData<F>,
}

impl<F: Format> Kernel for Typed<F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        // SAFETY: `multiply`'s caller vouches for all pointers and sizes.
        unsafe {
            match self.p.n {
                0 => {}
                1 => self.fused::<L, 4, 1>(),
                2 => self.fused::<L, 2, 2>(),
                3 => self.fused::<L, 2, 3>(),
                4 => self.fused::<L, 2, 4>(),
                _ => self.panels::<L>(),
            }
        }
    }
}

impl<F: Format> Typed<F> {
    /// Unpacks into registers, `R` rows at a time for `T` tokens.
    ///
    /// # Safety
    /// As for [`multiply`], and `n == T`.
    #[inline(always)]
    unsafe fn fused<L: Lanes, const R: usize, const T: usize>(&self) {
        const { assert!(T < PANEL_TOKENS) };
        let (mut row, end) = (self.p.rows.start, self.p.rows.end);
        // SAFETY: rows below `end` only.
        unsafe {
            while row + R <= end {
                self.fused_tile::<L, R, T>(row);
                row += R;
            }
            while row < end {
                self.fused_tile::<L, 1, T>(row);
                row += 1;
            }
        }
    }

    /// # Safety
    /// As for [`multiply`]; `row + R <= rows.end`.
    #[inline(always)]
    unsafe fn fused_tile<L: Lanes, const R: usize, const T: usize>(&self, row: usize) {
        let mut acc = [[L::zero(); T]; R];
        // SAFETY: the rows are within the range, the units within the rows and `x`.
        unsafe {
            let w = self.w.add(row * self.row_bytes);
            // The tile's rows are one run of memory; this much of it falls to each unit.
            let run = R * self.row_bytes / self.units;
            for unit in 0..self.units {
                let ahead = w.wrapping_add(unit * run + PREFETCH_BYTES);
                let mut line = 0;
                while line < run {
                    L::prefetch(ahead.wrapping_add(line));
                    line += LINE;
                }
                let x = self.p.x.add(unit * UNIT);
                for (r, acc) in acc.iter_mut().enumerate() {
                    let q = F::unit::<L>(w.add(r * self.row_bytes), unit);
                    for (i, q) in q.iter().enumerate() {
                        for (t, acc) in acc.iter_mut().enumerate() {
                            *acc = q.mul_add(L::load(x.add(t * self.p.x_stride + i * LANES)), *acc);
                        }
                    }
                }
            }
            for (r, acc) in acc.iter().enumerate() {
                for (t, acc) in acc.iter().enumerate() {
                    *self.p.out.add(t * self.p.out_stride + row + r) = acc.sum();
                }
            }
        }
    }

    /// Unpacks [`PANEL_ROWS`] rows to memory, then multiplies them with tiles of three tokens (twelve sums,
    /// which with a row's and three tokens' vectors fill sixteen registers).
    ///
    /// # Safety
    /// As for [`multiply`].
    #[inline(always)]
    unsafe fn panels<L: Lanes>(&self) {
        let mut row = self.p.rows.start;
        while row < self.p.rows.end {
            let rows = PANEL_ROWS.min(self.p.rows.end - row);
            // SAFETY: the rows are within the range, the tokens below `n`.
            unsafe {
                self.unpack_panel::<L>(row, rows);
                let mut t = 0;
                while t + 3 <= self.p.n {
                    self.panel_tile::<L, 3>(row, rows, t);
                    t += 3;
                }
                match self.p.n - t {
                    1 => self.panel_tile::<L, 1>(row, rows, t),
                    2 => self.panel_tile::<L, 2>(row, rows, t),
                    _ => {}
                }
            }
            row += rows;
        }
    }

    /// Fills `panel: [padded / 8][PANEL_ROWS][8]`; rows that are not there keep what they held.
    ///
    /// # Safety
    /// As for [`multiply`]; `row + rows <= rows.end`.
    #[inline(always)]
    unsafe fn unpack_panel<L: Lanes>(&self, row: usize, rows: usize) {
        // SAFETY: the rows are within the range, the panel has room for `PANEL_ROWS` of them.
        unsafe {
            for r in 0..rows {
                let w = self.w.add((row + r) * self.row_bytes);
                for unit in 0..self.units {
                    let q = F::unit::<L>(w, unit);
                    for (i, q) in q.iter().enumerate() {
                        q.store(self.p.panel.add(((unit * 4 + i) * PANEL_ROWS + r) * LANES));
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`multiply`]; the panel is filled and `t + T <= n`.
    #[inline(always)]
    unsafe fn panel_tile<L: Lanes, const T: usize>(&self, row: usize, rows: usize, t: usize) {
        let mut acc = [[L::zero(); PANEL_ROWS]; T];
        // SAFETY: all tokens are below `n`, the vectors within `x` and the panel.
        unsafe {
            let x = self.p.x.add(t * self.p.x_stride);
            for v in 0..self.units * 4 {
                let w = self.p.panel.add(v * PANEL_ROWS * LANES);
                let mut xs = [L::zero(); T];
                for (i, xs) in xs.iter_mut().enumerate() {
                    *xs = L::load(x.add(i * self.p.x_stride + v * LANES));
                }
                for r in 0..PANEL_ROWS {
                    let w = L::load(w.add(r * LANES));
                    for i in 0..T {
                        acc[i][r] = w.mul_add(xs[i], acc[i][r]);
                    }
                }
            }
            for (i, acc) in acc.iter().enumerate() {
                let [a, b, c, d] = *acc;
                let zero = L::zero();
                let sums = L::sum_each([a, b, c, d, zero, zero, zero, zero]).to_array();
                let out = self.p.out.add((t + i) * self.p.out_stride + row);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), out, rows);
            }
        }
    }
}
