//! `d * (q - 8)`: float16 `d`, then 16 bytes whose low nibbles are elements 0..16 and high nibbles 16..32.

use super::half_at;

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let d = half_at(block, 0);
    for (i, &q) in block[2..].iter().enumerate() {
        out[i] = d * (f32::from(q & 15) - 8.0);
        out[i + 16] = d * (f32::from(q >> 4) - 8.0);
    }
}
