//! A weight matrix, quantised in memory.

use super::memory::{Arena, Piece};
use super::pool::Pool;
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::TensorSpec;
use lean_kernels::product::Product;
use lean_kernels::{Isa, Layout, ROWS};
use std::sync::Mutex;

/// Groups of rows that are packed as one item of work.
const GROUPS_AN_ITEM: usize = 16;

/// `rows x cols` weights in the layout of their format: groups of eight rows, in each its blocks.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
    bytes: Piece,
}

impl Matrix {
    /// Packs a tensor's bytes as they are in the model file.
    pub(crate) fn new(spec: &TensorSpec, bytes: &[u8], arena: &mut Arena, pool: &mut Pool) -> Result<Self> {
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
        let layout = Layout::new(spec.dtype, spec.cols);
        let bytes = pack(spec, &layout, bytes, arena, pool)?;
        Ok(Matrix { rows: spec.rows, cols: spec.cols, layout, bytes })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// Dequantises row `row` to `out: [cols]`.
    pub(crate) fn row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let group = &self.bytes.bytes()[row / ROWS * self.layout.group_bytes..];
        self.layout.row(isa, group, row % ROWS, &mut out[..self.cols]);
    }

    /// `out[t][r] = sum_k w[r][k] x[t][k]` for the rows `r` of a range and all tokens of an input.
    ///
    /// # Safety
    /// As for [`Product`], whose fields these are.
    pub(crate) unsafe fn multiply(&self, isa: Isa, product: &Product) {
        assert!(product.rows.start.is_multiple_of(ROWS) && product.rows.end <= self.rows);
        // SAFETY: the groups of rows below `self.rows` lie within `bytes`; the rest is the caller's.
        unsafe { self.layout.multiply(isa, self.bytes.bytes().as_ptr(), product) }
    }
}

/// Packs all groups of a tensor, on all threads.
fn pack(
    spec: &TensorSpec,
    layout: &Layout,
    file: &[u8],
    arena: &mut Arena,
    pool: &mut Pool,
) -> Result<Piece> {
    let (groups, group_bytes) = (spec.rows.div_ceil(ROWS), layout.group_bytes);
    let file_row = file.len() / spec.rows.max(1);
    let mut piece = arena.take(groups.saturating_mul(group_bytes), &spec.name)?;
    let bytes = piece.bytes_mut();
    let zeros = vec![0; file_row];
    let pack = |first: usize, chunk: &mut [u8]| {
        for (group, to) in chunk.chunks_exact_mut(group_bytes.max(1)).enumerate() {
            let row = |r: usize| {
                file.get(((first + group) * ROWS + r) * file_row..).and_then(|f| f.get(..file_row))
            };
            layout.pack(std::array::from_fn(|r| row(r).unwrap_or(&zeros)), to);
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
    Ok(piece)
}

/// A small tensor as plain numbers: norm weights, biases, convolution kernels.
pub(crate) fn to_f32(
    spec: &TensorSpec,
    bytes: &[u8],
    arena: &mut Arena,
    pool: &mut Pool,
) -> Result<Vec<f32>> {
    let matrix = Matrix::new(spec, bytes, arena, pool)?;
    let mut out = try_zeroed(matrix.rows.saturating_mul(matrix.cols), &spec.name)?;
    for (r, row) in out.chunks_exact_mut(matrix.cols.max(1)).enumerate() {
        // The portable path, so that these numbers do not depend on the machine.
        matrix.row(Isa::PORTABLE, r, row);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::DType;

    #[test]
    fn bad_shapes_and_sizes_are_errors() {
        let spec = |dtype, rows, cols| TensorSpec { name: "w".into(), dtype, rows, cols };
        for (dtype, rows, cols, bytes) in [
            (DType::Q4_0, 2, 33, 36),
            (DType::Q4_K, 1, 128, 144),
            (DType::F32, 2, 2, 15),
            (DType::Q8_0, usize::MAX / 8, 32, 34),
        ] {
            let mut pool = Pool::new(1).unwrap();
            assert!(
                Matrix::new(&spec(dtype, rows, cols), &vec![0; bytes], &mut Arena::default(), &mut pool)
                    .is_err(),
                "{dtype:?} {rows}x{cols}"
            );
        }
    }
}
