//! `d * q + m`: float16 `d` and `m`, 32 fifth bits, then 16 bytes of nibbles, both as in Q5_0.

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
