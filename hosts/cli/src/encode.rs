//! Rows of numbers to blocks, on all cores.

use lean_engine::quant::{dequantize_row, quantize_row, DType};
use lean_engine::{Error, Result};
use rayon::prelude::*;

/// Elements of one task: whole blocks of every format, and large enough to be worth handing over.
const TASK: usize = 64 * 256;
/// The largest float16, in which also the scales of the other formats are stored.
const LARGEST: f32 = 65_504.0;

/// Blocks of whole rows; `tensor` is named in errors.
pub fn encode(dtype: DType, values: &[f32], tensor: &str) -> Result<Vec<u8>> {
    let fail = |reason: String| Error::bad_model(format_args!("tensor {}", tensor.escape_debug()), reason);
    let bytes = dtype
        .bytes_of(values.len())
        .ok_or_else(|| fail(format!("{} elements are not whole blocks of {dtype}", values.len())))?;
    let mut out = vec![0; bytes];
    let task_bytes = TASK / dtype.block_elems() * dtype.block_bytes();
    let halves = !matches!(dtype, DType::F32 | DType::BF16);
    values.par_chunks(TASK).zip(out.par_chunks_mut(task_bytes)).try_for_each(|(values, out)| {
        if let Some(x) = values.iter().find(|x| halves && x.abs() > LARGEST) {
            return Err(fail(format!("{x} is larger than {dtype} can hold; take bf16 or f32")));
        }
        quantize_row(dtype, values, out).map_err(|e| fail(e.to_string()))
    })?;
    Ok(out)
}

/// Numbers of whole rows.
pub fn decode(dtype: DType, bytes: &[u8], tensor: &str) -> Result<Vec<f32>> {
    let mut out = vec![0.0; bytes.len() / dtype.block_bytes() * dtype.block_elems()];
    let task_bytes = TASK / dtype.block_elems() * dtype.block_bytes();
    bytes.par_chunks(task_bytes).zip(out.par_chunks_mut(TASK)).try_for_each(|(bytes, out)| {
        dequantize_row(dtype, bytes, out)
            .map_err(|e| Error::bad_model(format_args!("tensor {}", tensor.escape_debug()), e))
    })?;
    Ok(out)
}
