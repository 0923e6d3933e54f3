//! `d * (q - 8)`: float16 `d`, then 16 bytes whose low nibbles are elements 0..16 and high nibbles 16..32.

use super::half_at;
use super::quantize::{around, extreme, half_bytes, inverse};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 16;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let d = half_at(block, 0);
    for (i, &q) in block[2..].iter().enumerate() {
        out[i] = d * (f32::from(q & 15) - 8.0);
        out[i + 16] = d * (f32::from(q >> 4) - 8.0);
    }
}

/// The extreme value becomes 0 (-8 after the shift).
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let d = extreme(values) / -8.0;
    let id = inverse(d);
    block[..2].copy_from_slice(&half_bytes(d));
    for (i, b) in block[2..].iter_mut().enumerate() {
        *b = around(values[i], id, 8.5, 15) | around(values[i + 16], id, 8.5, 15) << 4;
    }
}
