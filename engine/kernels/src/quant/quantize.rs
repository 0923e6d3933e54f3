//! Float32 rows to blocks. Where the format leaves no choice the results are those of ggml's `quantize_row_*_ref`; the
//! K formats are searched (`search.rs`) and as close to the values as ggml's.

use super::{quantize_blocks, DType};

/// Numbers that are no row of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The format.
    pub dtype: DType,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} row: {}", self.dtype, self.reason)
    }
}

impl std::error::Error for RowError {}

/// Blocks of a row, or of whole rows one after another.
///
/// # Errors
/// When `values` is not whole blocks of `dtype` or holds a number that is not
/// finite, and when `out` has not exactly their size.
pub fn quantize_row(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), RowError> {
    if dtype.bytes_of(values.len()) != Some(out.len()) {
        let reason = format!("{} elements do not fill exactly {} bytes", values.len(), out.len());
        return Err(RowError { dtype, reason });
    }
    if let Some(i) = values.iter().position(|x| !x.is_finite()) {
        return Err(RowError { dtype, reason: format!("element {i} is {}", values[i]) });
    }
    quantize_blocks(dtype, values, out);
    Ok(())
}

/// The float16 bytes of a scale.
pub(super) fn half_bytes(x: f32) -> [u8; 2] {
    half::f16::from_f32(x).to_le_bytes()
}

/// `1 / d`, or 0 for a block of zeros.
pub(super) fn inverse(d: f32) -> f32 {
    if d == 0.0 {
        0.0
    } else {
        1.0 / d
    }
}

/// The number of largest magnitude with its sign; the first of several.
pub(super) fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |m: f32, &x| if x.abs() > m.abs() { x } else { m })
}

/// The smallest and the largest number.
pub(super) fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::MAX, f32::MIN), |(lo, hi), &x| (lo.min(x), hi.max(x)))
}

/// `x * id + offset` with one rounding, cut to an integer of `0 ..= most`: the signed formats.
pub(super) fn around(x: f32, id: f32, offset: f32, most: u8) -> u8 {
    let q = (f64::from(x) * f64::from(id) + f64::from(offset)) as f32;
    (q as u8).min(most)
}

/// `(x - min) * id` to the nearest integer of `0 ..= most`: the formats with a minimum.
pub(super) fn above(x: f32, min: f32, id: f32, most: u8) -> u8 {
    (((x - min) * id + 0.5) as u8).min(most)
}
