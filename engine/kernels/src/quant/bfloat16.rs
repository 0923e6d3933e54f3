//! bfloat16: the upper half of a binary32.

pub const ELEMS: usize = 1;
pub const BYTES: usize = 2;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    out[0] = f32::from_bits(u32::from(u16::from_le_bytes(*block)) << 16);
}

/// To the nearest, ties to even.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    *block = half::bf16::from_f32(values[0]).to_le_bytes();
}
