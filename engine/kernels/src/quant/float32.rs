//! IEEE 754 binary32.

pub const ELEMS: usize = 1;
pub const BYTES: usize = 4;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    out[0] = f32::from_le_bytes(*block);
}

pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    *block = values[0].to_le_bytes();
}
