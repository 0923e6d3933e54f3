//! IEEE 754 binary16.

pub const ELEMS: usize = 1;
pub const BYTES: usize = 2;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    out[0] = super::half_at(block, 0);
}

/// To the nearest, ties to even; beyond the largest float16 is infinity.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    *block = super::quantize::half_bytes(values[0]);
}
