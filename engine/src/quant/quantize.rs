//! Float32 rows to blocks, for the formats whose blocks need no search. The results are those of ggml's
//! `quantize_row_*_ref`.

use super::{bfloat16, blocks_of, float16, float32, q4_0, q4_1, q5_0, q5_1, q8_0, DType};
use crate::error::{Error, Result};

/// Blocks of a row, or of whole rows one after another.
///
/// # Errors
/// [`Error::InvalidArgument`] when `values` is not whole blocks of `dtype` or holds a number that is not
/// finite, when `out` has not exactly their size, or when the format has no quantiser (the K formats).
pub fn quantize_row(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<()> {
    if dtype.bytes_of(values.len()) != Some(out.len()) {
        let reason = format!("{} elements do not fill exactly {} bytes", values.len(), out.len());
        return Err(Error::invalid(format_args!("{dtype} row"), reason));
    }
    if let Some(i) = values.iter().position(|x| !x.is_finite()) {
        return Err(Error::invalid(
            format_args!("{dtype} row"),
            format_args!("element {i} is {}", values[i]),
        ));
    }
    match dtype {
        DType::F32 => blocks_of(values, out, float32::quantize),
        DType::F16 => blocks_of(values, out, float16::quantize),
        DType::BF16 => blocks_of(values, out, bfloat16::quantize),
        DType::Q4_0 => blocks_of(values, out, q4_0::quantize),
        DType::Q4_1 => blocks_of(values, out, q4_1::quantize),
        DType::Q5_0 => blocks_of(values, out, q5_0::quantize),
        DType::Q5_1 => blocks_of(values, out, q5_1::quantize),
        DType::Q8_0 => blocks_of(values, out, q8_0::quantize),
        DType::Q4_K | DType::Q5_K | DType::Q6_K => {
            return Err(Error::invalid(dtype, "there is no quantiser for this format"));
        }
    }
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
