//! `d * q + m`: float16 `d` and `m`, 32 fifth bits, then 16 bytes of nibbles, both as in Q5_0.

use super::quantize::{above, half_bytes, inverse, range};
use super::{bits_at, half_at};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 2 + 4 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, m, high) = (half_at(block, 0), half_at(block, 2), bits_at(block, 4));
    let fifth = |i: usize| ((high >> i & 1) << 4) as u8;
    for (i, &q) in block[8..].iter().enumerate() {
        out[i] = d * f32::from(q & 15 | fifth(i)) + m;
        out[i + 16] = d * f32::from(q >> 4 | fifth(i + 16)) + m;
    }
}

/// The smallest value becomes 0, the largest 31.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (min, max) = range(values);
    let d = (max - min) / 31.0;
    let id = inverse(d);
    let q = values.map(|x| above(x, min, id, 31));
    block[..2].copy_from_slice(&half_bytes(d));
    block[2..4].copy_from_slice(&half_bytes(min));
    block[4..8].copy_from_slice(&super::q5_0::fifth_bits(&q));
    for (i, b) in block[8..].iter_mut().enumerate() {
        *b = q[i] & 15 | q[i + 16] << 4;
    }
}
