//! `d * q + m`: float16 `d` and `m`, then 16 bytes of nibbles as in Q4_0.

use super::half_at;
use super::quantize::{above, half_bytes, inverse, range};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 2 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, &q) in block[4..].iter().enumerate() {
        out[i] = d * f32::from(q & 15) + m;
        out[i + 16] = d * f32::from(q >> 4) + m;
    }
}

/// The smallest value becomes 0, the largest 15.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (min, max) = range(values);
    let d = (max - min) / 15.0;
    let id = inverse(d);
    block[..2].copy_from_slice(&half_bytes(d));
    block[2..4].copy_from_slice(&half_bytes(min));
    for (i, b) in block[4..].iter_mut().enumerate() {
        *b = above(values[i], min, id, 15) | above(values[i + 16], min, id, 15) << 4;
    }
}
