//! `d * (q - 16)`: float16 `d`, 32 fifth bits (bit `i` for element `i`), then 16 bytes of nibbles as in Q4_0.

use super::quantize::{around, extreme, half_bytes, inverse};
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

/// The extreme value becomes 0 (-16 after the shift).
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let d = extreme(values) / -16.0;
    let id = inverse(d);
    let q = values.map(|x| around(x, id, 16.5, 31));
    block[..2].copy_from_slice(&half_bytes(d));
    block[2..6].copy_from_slice(&fifth_bits(&q));
    for (i, b) in block[6..].iter_mut().enumerate() {
        *b = q[i] & 15 | q[i + 16] << 4;
    }
}

/// The fifth bits of 32 numbers, as Q5_0 and Q5_1 store them.
pub fn fifth_bits(q: &[u8; ELEMS]) -> [u8; 4] {
    q.iter().enumerate().fold(0u32, |bits, (i, &q)| bits | u32::from(q >> 4 & 1) << i).to_le_bytes()
}
