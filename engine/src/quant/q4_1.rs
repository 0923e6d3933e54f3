//! `d * q + m`: float16 `d` and `m`, then 16 bytes of nibbles as in Q4_0.

use super::half_at;

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 2 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, &q) in block[4..].iter().enumerate() {
        out[i] = d * f32::from(q & 15) + m;
        out[i + 16] = d * f32::from(q >> 4) + m;
    }
}
