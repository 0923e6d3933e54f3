//! Block formats of weights; their arithmetic is in the crate `lean-kernels`.

use crate::error::{Error, Result};
pub use lean_kernels::quant::DType;
use lean_kernels::quant::{self, RowError};

/// Float32 values of whole blocks; any number of rows, since rows are whole blocks themselves.
///
/// # Errors
/// [`Error::InvalidArgument`] when `out` is not whole blocks or `bytes` does not hold exactly its elements.
pub fn dequantize_row(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    quant::dequantize_row(dtype, bytes, out).map_err(invalid)
}

/// Blocks of a row, or of whole rows one after another.
///
/// # Errors
/// [`Error::InvalidArgument`] when `values` is not whole blocks of `dtype` or holds a number that is not
/// finite, and when `out` has not exactly their size.
pub fn quantize_row(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<()> {
    quant::quantize_row(dtype, values, out).map_err(invalid)
}

fn invalid(e: RowError) -> Error {
    Error::invalid(format_args!("{} row", e.dtype), e.reason)
}
