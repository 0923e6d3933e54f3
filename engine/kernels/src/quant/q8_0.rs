//! `d * q`: float16 `d`, then 32 signed bytes.

use super::half_at;
use super::quantize::{extreme, half_bytes, inverse};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 32;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let d = half_at(block, 0);
    for (o, &q) in out.iter_mut().zip(&block[2..]) {
        *o = d * f32::from(q as i8);
    }
}

/// The extreme value becomes 127 or -127; halves are rounded away from zero.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let d = extreme(values).abs() / 127.0;
    let id = inverse(d);
    block[..2].copy_from_slice(&half_bytes(d));
    for (b, x) in block[2..].iter_mut().zip(values) {
        *b = (x * id).round() as i8 as u8;
    }
}
