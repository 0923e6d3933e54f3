//! `d * (q - 16)`: float16 `d`, 32 fifth bits (bit `i` for element `i`), then 16 bytes of nibbles as in Q4_0.

use super::{bits_at, half_at};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 4 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, high) = (half_at(block, 0), bits_at(block, 2));
    let fifth = |i: usize| ((high >> i & 1) << 4) as u8;
    for (i, &q) in block[6..].iter().enumerate() {
        out[i] = d * (f32::from(q & 15 | fifth(i)) - 16.0);
        out[i + 16] = d * (f32::from(q >> 4 | fifth(i + 16)) - 16.0);
    }
}
