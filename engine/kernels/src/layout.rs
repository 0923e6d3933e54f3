//! A matrix in the layout of its format: groups of eight rows, in each its blocks.

use crate::formats::{for_format, ForFormat, Format, ROWS, UNIT, UNSHIFT};
use crate::lanes::{Isa, Kernel, Lanes};
use crate::product::{self, Product};
use crate::quant::DType;
use std::marker::PhantomData;

/// How the rows of a matrix lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Storage type of the weights.
    pub dtype: DType,
    /// Whether products read the activations unshifted (see [`Activations`](crate::product::Activations)).
    pub shifted: bool,
    /// Bytes of a group of [`ROWS`] rows.
    pub group_bytes: usize,
    /// The columns rounded up to whole blocks; the weights between are zero.
    pub padded: usize,
}

impl Layout {
    /// The layout of rows of `cols` columns, which are whole blocks of the storage type.
    pub fn new(dtype: DType, cols: usize) -> Self {
        for_format(dtype, Measure { dtype, cols })
    }

    /// Packs a group of rows, each given as the bytes of the model file.
    ///
    /// # Panics
    /// If a row is shorter than its columns or `to` than `group_bytes`.
    pub fn pack(&self, rows: [&[u8]; ROWS], to: &mut [u8]) {
        for_format(self.dtype, Pack { dtype: self.dtype, rows, to: &mut to[..self.group_bytes] });
    }

    /// Dequantises the first `out.len()` columns of row `lane` of a group.
    ///
    /// # Panics
    /// If `group` is shorter than `group_bytes`, `lane` not below [`ROWS`] or `out` longer than `padded`.
    pub fn row(&self, isa: Isa, group: &[u8], lane: usize, out: &mut [f32]) {
        assert!(out.len() <= self.padded && lane < ROWS);
        for_format(self.dtype, Row { isa, group: &group[..self.group_bytes], lane, out });
    }

    /// `out[t][r] = sum_k w[r][k] x[t][k]` for the rows `r` of a range and all tokens of an input.
    ///
    /// # Safety
    /// `w` holds the groups up to the range's last row, and the product is as [`Product`] says.
    pub unsafe fn multiply(&self, isa: Isa, w: *const u8, product: &Product) {
        // SAFETY: the caller's.
        unsafe { product::multiply(isa, self, w, product) }
    }
}

struct Measure {
    dtype: DType,
    cols: usize,
}

impl ForFormat for Measure {
    type Out = Layout;
    fn run<F: Format + 'static>(self) -> Layout {
        // Columns are whole blocks of the file, which are blocks of the format except for plain numbers.
        let padded = self.cols.next_multiple_of(F::COLS);
        let group_bytes = (padded / F::COLS).saturating_mul(F::BYTES);
        Layout { dtype: self.dtype, shifted: F::SHIFTED, group_bytes, padded }
    }
}

struct Pack<'a> {
    dtype: DType,
    rows: [&'a [u8]; ROWS],
    to: &'a mut [u8],
}

impl ForFormat for Pack<'_> {
    type Out = ();
    fn run<F: Format + 'static>(self) {
        let Pack { dtype, rows, to } = self;
        let file_block = F::COLS / dtype.block_elems() * dtype.block_bytes();
        for (b, to) in to.chunks_exact_mut(F::BYTES).enumerate() {
            let from = b * file_block;
            if rows[0].len() >= from + file_block {
                F::pack(rows.map(|r| &r[from..from + file_block]), to);
            } else {
                // Plain numbers whose last block is not full.
                let mut last = [[0u8; 4 * UNIT]; ROWS];
                for (row, last) in rows.iter().zip(&mut last) {
                    last[..row.len() - from].copy_from_slice(&row[from..]);
                }
                F::pack(std::array::from_fn(|r| &last[r][..file_block]), to);
            }
        }
    }
}

struct Row<'a> {
    isa: Isa,
    group: &'a [u8],
    lane: usize,
    out: &'a mut [f32],
}

impl ForFormat for Row<'_> {
    type Out = ();
    fn run<F: Format + 'static>(self) {
        let Row { isa, group, lane, out } = self;
        isa.call(TypedRow::<F> { group, lane, out, format: PhantomData });
    }
}

struct TypedRow<'a, F> {
    group: &'a [u8],
    lane: usize,
    out: &'a mut [f32],
    format: PhantomData<F>,
}

impl<F: Format> Kernel for TypedRow<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (b, out) in self.out.chunks_mut(F::COLS).enumerate() {
            let block = self.group[b * F::BYTES..][..F::BYTES].as_ptr();
            for (j, out) in out.chunks_mut(8).enumerate() {
                // SAFETY: the block is whole, and column `8 j` is one of its own.
                let (q, scale, offset) = unsafe {
                    let part = 8 * j / F::PART;
                    (F::eight::<L>(block, j), F::scale::<L>(block, part), F::offset::<L>(block, part))
                };
                for (i, out) in out.iter_mut().enumerate() {
                    let q = if F::SHIFTED { q[i].mul(L::splat(UNSHIFT[i])) } else { q[i] };
                    *out = q.mul_add(scale, offset).to_array()[self.lane];
                }
            }
        }
    }
}
