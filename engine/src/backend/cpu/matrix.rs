//! A weight matrix, quantised in memory.

use super::formats::{for_format, ForFormat, Format, ROWS, UNIT, UNSHIFT};
use super::lanes::{Isa, Kernel, Lanes};
use super::matmul::Product;
use super::pool::Pool;
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::TensorSpec;
use crate::quant::DType;
use std::marker::PhantomData;
use std::sync::Mutex;

/// Groups of rows that are packed as one item of work.
const GROUPS_AN_ITEM: usize = 16;

/// `rows x cols` weights in the layout of their format: groups of eight rows, in each its blocks.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) dtype: DType,
    /// Whether products read the activations unshifted, see [`Format::SHIFTED`].
    pub(crate) shifted: bool,
    /// Bytes of a group of rows.
    pub(crate) group_bytes: usize,
    /// `cols` rounded up to whole blocks; the weights between are zero.
    pub(crate) padded: usize,
    bytes: Vec<u8>,
}

impl Matrix {
    /// Packs a tensor's bytes as they are in the model file.
    pub(crate) fn new(spec: &TensorSpec, bytes: &[u8], pool: &mut Pool) -> Result<Self> {
        let (elems, block) = (spec.dtype.block_elems(), spec.dtype.block_bytes());
        if !spec.cols.is_multiple_of(elems) {
            let reason = format!("rows of {} elements do not fill {:?} blocks", spec.cols, spec.dtype);
            return Err(Error::unsupported(&spec.name, reason));
        }
        let file_row = spec.cols / elems * block;
        if file_row.checked_mul(spec.rows) != Some(bytes.len()) {
            let reason = format!("{} bytes for {} rows of {} bytes", bytes.len(), spec.rows, file_row);
            return Err(Error::bad_model(&spec.name, reason));
        }
        for_format(spec.dtype, Pack { spec, file: bytes, file_row, pool })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Dequantises row `row` to `out: [cols]`.
    pub(crate) fn row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let group = &self.bytes[row / ROWS * self.group_bytes..][..self.group_bytes];
        for_format(self.dtype, Row { isa, group, lane: row % ROWS, out: &mut out[..self.cols] });
    }

    /// `out[t][r] = sum_k w[r][k] x[t][k]` for the rows `r` of a range and all tokens of an input.
    ///
    /// # Safety
    /// As for [`Product`], whose fields these are.
    pub(crate) unsafe fn multiply(&self, isa: Isa, product: &Product) {
        assert!(product.rows.start.is_multiple_of(ROWS) && product.rows.end <= self.rows);
        // SAFETY: the groups of rows below `self.rows` lie within `bytes`; the rest is the caller's.
        unsafe { super::matmul::multiply(isa, self, self.bytes.as_ptr(), product) }
    }
}

struct Pack<'a> {
    spec: &'a TensorSpec,
    file: &'a [u8],
    file_row: usize,
    pool: &'a mut Pool,
}

impl ForFormat for Pack<'_> {
    type Out = Result<Matrix>;
    fn run<F: Format + 'static>(self) -> Result<Matrix> {
        let Pack { spec, file, file_row, pool } = self;
        // Columns are whole blocks of the file, which are blocks of the format except for plain numbers.
        let padded = spec.cols.next_multiple_of(F::COLS);
        let group_bytes = padded / F::COLS * F::BYTES;
        let groups = spec.rows.div_ceil(ROWS);
        let mut bytes =
            try_zeroed::<u8>(groups.saturating_mul(group_bytes), &format!("the weights {}", spec.name))?;
        let file_block = F::COLS / spec.dtype.block_elems() * spec.dtype.block_bytes();
        let zeros = vec![0; file_row];
        let pack = |first: usize, chunk: &mut [u8]| {
            for (group, to) in chunk.chunks_exact_mut(group_bytes.max(1)).enumerate() {
                let row = |r: usize| {
                    file.get(((first + group) * ROWS + r) * file_row..).and_then(|f| f.get(..file_row))
                };
                let rows: [&[u8]; ROWS] = std::array::from_fn(|r| row(r).unwrap_or(&zeros));
                pack_group::<F>(rows, file_block, to);
            }
        };
        let chunks: Vec<Mutex<&mut [u8]>> =
            bytes.chunks_mut((group_bytes * GROUPS_AN_ITEM).max(1)).map(Mutex::new).collect();
        pool.run(chunks.len(), &|item, _| {
            if let Ok(mut chunk) = chunks[item].lock() {
                pack(item * GROUPS_AN_ITEM, &mut chunk);
            }
        })?;
        drop(chunks);
        Ok(Matrix {
            rows: spec.rows,
            cols: spec.cols,
            dtype: spec.dtype,
            shifted: F::SHIFTED,
            group_bytes,
            padded,
            bytes,
        })
    }
}

/// Packs eight rows of the file.
fn pack_group<F: Format>(rows: [&[u8]; ROWS], file_block: usize, to: &mut [u8]) {
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

/// A small tensor as plain numbers: norm weights, biases, convolution kernels.
pub(crate) fn to_f32(spec: &TensorSpec, bytes: &[u8], pool: &mut Pool) -> Result<Vec<f32>> {
    let matrix = Matrix::new(spec, bytes, pool)?;
    let mut out = try_zeroed(matrix.rows.saturating_mul(matrix.cols), &spec.name)?;
    for (r, row) in out.chunks_exact_mut(matrix.cols.max(1)).enumerate() {
        // The portable path, so that these numbers do not depend on the machine.
        matrix.row(Isa::PORTABLE, r, row);
    }
    Ok(out)
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
