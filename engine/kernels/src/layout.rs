//! A matrix in the layout of its format: groups of eight rows, in each its blocks.

use crate::formats::{for_format, ForFormat, Packed, Plain, Quantised, ROWS, UNIT};
use crate::lanes::{Isa, Kernel, Lanes};
use crate::product::{self, Product};
use crate::quant::DType;
use std::marker::PhantomData;

/// How the rows of a matrix lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Storage type of the weights.
    pub dtype: DType,
    /// Whether products read records (see [`Activations`](crate::activations::Activations)).
    pub quantised: bool,
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

impl Measure {
    fn layout<F: Packed>(self, quantised: bool) -> Layout {
        // Columns are whole blocks of the file, which are blocks of the format except for plain numbers.
        let padded = self.cols.next_multiple_of(F::COLS);
        let group_bytes = (padded / F::COLS).saturating_mul(F::BYTES);
        Layout { dtype: self.dtype, quantised, group_bytes, padded }
    }
}

impl ForFormat for Measure {
    type Out = Layout;
    fn plain<F: Plain + 'static>(self) -> Layout {
        self.layout::<F>(false)
    }
    fn quantised<F: Quantised + 'static>(self) -> Layout {
        self.layout::<F>(true)
    }
}

struct Pack<'a> {
    dtype: DType,
    rows: [&'a [u8]; ROWS],
    to: &'a mut [u8],
}

impl Pack<'_> {
    fn pack<F: Packed>(self) {
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

impl ForFormat for Pack<'_> {
    type Out = ();
    fn plain<F: Plain + 'static>(self) {
        self.pack::<F>();
    }
    fn quantised<F: Quantised + 'static>(self) {
        self.pack::<F>();
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
    fn plain<F: Plain + 'static>(self) {
        let Row { isa, group, lane, out } = self;
        isa.call(PlainRow::<F> { group, lane, out, format: PhantomData });
    }
    fn quantised<F: Quantised + 'static>(self) {
        let Row { isa, group, lane, out } = self;
        isa.call(QuantisedRow::<F> { group, lane, out, format: PhantomData });
    }
}

struct PlainRow<'a, F> {
    group: &'a [u8],
    lane: usize,
    out: &'a mut [f32],
    format: PhantomData<F>,
}

impl<F: Plain> Kernel for PlainRow<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (b, out) in self.out.chunks_mut(F::COLS).enumerate() {
            let block = self.group[b * F::BYTES..][..F::BYTES].as_ptr();
            for (j, out) in out.chunks_mut(8).enumerate() {
                // SAFETY: the block is whole, and column `8 j` is one of its own.
                let q = unsafe { F::eight::<L>(block, j) };
                for (q, out) in q.into_iter().zip(out) {
                    *out = q.to_array()[self.lane];
                }
            }
        }
    }
}

struct QuantisedRow<'a, F> {
    group: &'a [u8],
    lane: usize,
    out: &'a mut [f32],
    format: PhantomData<F>,
}

impl<F: Quantised> Kernel for QuantisedRow<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (b, out) in self.out.chunks_mut(F::COLS).enumerate() {
            let block = self.group[b * F::BYTES..][..F::BYTES].as_ptr();
            for (part, out) in out.chunks_mut(UNIT).enumerate() {
                // SAFETY: the block is whole, and the part is one of its own.
                let (q, offset) = unsafe { (F::weights::<L>(block, part), F::offset::<L>(block, part)) };
                let offset = offset.to_array()[self.lane];
                for (half, out) in out.chunks_mut(UNIT / F::SCALES).enumerate() {
                    // SAFETY: as above.
                    let scale = unsafe { F::scale::<L>(block, F::SCALES * part + half) };
                    let scale = scale.to_array()[self.lane];
                    for (i, out) in out.iter_mut().enumerate() {
                        let col = UNIT / F::SCALES * half + i;
                        let q = L::byte_array(q[col / 4])[4 * self.lane + col % 4];
                        *out = (i32::from(q) - F::ZERO) as f32 * scale + offset;
                    }
                }
            }
        }
    }
}
