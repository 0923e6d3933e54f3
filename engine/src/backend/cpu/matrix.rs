//! A weight matrix, quantised in memory.

use super::formats::{for_format, ForFormat, Format, UNIT};
use super::lanes::{Isa, Kernel, Lanes, LANES};
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::TensorSpec;
use crate::quant::DType;
use std::borrow::Cow;

/// `rows x cols` weights in the layout of their format, rows one after the other.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// `cols` rounded up to whole units; the weights between are zero.
    pub(crate) padded: usize,
    dtype: DType,
    row_bytes: usize,
    bytes: Vec<u8>,
}

impl Matrix {
    /// Takes a tensor's bytes as they are in the model file.
    pub(crate) fn new(spec: &TensorSpec, bytes: Cow<'_, [u8]>) -> Result<Self> {
        let (elems, block) = (spec.dtype.block_elems(), spec.dtype.block_bytes());
        if !spec.cols.is_multiple_of(elems) {
            return Err(Error::unsupported(&spec.name, format!("rows of {} elements do not fill {:?} blocks", spec.cols, spec.dtype)));
        }
        let file_row = spec.cols / elems * block;
        if file_row.checked_mul(spec.rows) != Some(bytes.len()) {
            return Err(Error::bad_model(
                &spec.name,
                format!("{} bytes for {} rows of {} bytes", bytes.len(), spec.rows, file_row),
            ));
        }
        let padded = spec.cols.next_multiple_of(UNIT.max(elems));
        let row_bytes = padded / elems * block;
        let bytes = if row_bytes == file_row {
            owned(bytes, &spec.name)?
        } else {
            pad_rows(&bytes, file_row, row_bytes, &spec.name)?
        };
        Ok(Matrix { rows: spec.rows, cols: spec.cols, padded, dtype: spec.dtype, row_bytes, bytes })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Dequantises row `row` to `out: [cols]`.
    pub(crate) fn row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let out = &mut out[..self.cols];
        for_format(self.dtype, ReadRow { isa, row: self.row_bytes(row), out });
    }

    /// The bytes of `count` consecutive rows.
    fn row_bytes(&self, row: usize) -> &[u8] {
        &self.bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }

    /// `out[t][r] = sum_k w[r][k] x[t][k]` for the rows `r` of a range and `n` tokens.
    ///
    /// # Safety
    /// As for [`Product`], whose fields these are.
    pub(crate) unsafe fn multiply(&self, isa: Isa, product: super::matmul::Product) {
        debug_assert!(product.rows.end <= self.rows);
        // SAFETY: rows below `rows.end <= self.rows` lie within `bytes`; the rest is the caller's.
        unsafe { super::matmul::multiply(isa, self.dtype, self.bytes.as_ptr(), self.row_bytes, self.padded, product) }
    }
}

fn owned(bytes: Cow<'_, [u8]>, name: &str) -> Result<Vec<u8>> {
    match bytes {
        Cow::Owned(v) => Ok(v),
        Cow::Borrowed(b) => {
            let mut v = reserve(b.len(), name)?;
            v.extend_from_slice(b);
            Ok(v)
        }
    }
}

fn reserve(bytes: usize, name: &str) -> Result<Vec<u8>> {
    let mut v = Vec::new();
    v.try_reserve_exact(bytes)
        .map_err(|_| Error::OutOfMemory { wanted: bytes as u64, what: format!("the weights {name}") })?;
    Ok(v)
}

fn pad_rows(bytes: &[u8], from: usize, to: usize, name: &str) -> Result<Vec<u8>> {
    let rows = bytes.len() / from.max(1);
    let mut v = reserve(rows.saturating_mul(to), name)?;
    for row in bytes.chunks_exact(from.max(1)) {
        v.extend_from_slice(row);
        v.resize(v.len() + to - from, 0);
    }
    Ok(v)
}

/// A small tensor as plain numbers: norm weights, biases, convolution kernels.
pub(crate) fn to_f32(spec: &TensorSpec, bytes: Cow<'_, [u8]>) -> Result<Vec<f32>> {
    let matrix = Matrix::new(spec, bytes)?;
    let len = matrix.rows.saturating_mul(matrix.cols);
    let mut out = try_zeroed(len, &spec.name)?;
    for (r, row) in out.chunks_exact_mut(matrix.cols.max(1)).enumerate() {
        // The portable path, so that these numbers do not depend on the machine.
        matrix.row(Isa::PORTABLE, r, row);
    }
    Ok(out)
}

struct ReadRow<'a> {
    isa: Isa,
    row: &'a [u8],
    out: &'a mut [f32],
}

impl ForFormat for ReadRow<'_> {
    type Out = ();
    fn run<F: Format>(self) {
        self.isa.call(TypedReadRow::<F> { row: self.row, out: self.out, format: std::marker::PhantomData });
    }
}

struct TypedReadRow<'a, F> {
    row: &'a [u8],
    out: &'a mut [f32],
    format: std::marker::PhantomData<F>,
}

impl<F: Format> Kernel for TypedReadRow<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (unit, out) in self.out.chunks_mut(UNIT).enumerate() {
            // SAFETY: `row` is a whole row, padded to units, and there is a unit for every chunk of `out`.
            let w = unsafe { F::unit::<L>(self.row.as_ptr(), unit) };
            let mut values = [0.0; UNIT];
            for (i, v) in w.iter().enumerate() {
                values[i * LANES..(i + 1) * LANES].copy_from_slice(&v.to_array());
            }
            out.copy_from_slice(&values[..out.len()]);
        }
    }
}
