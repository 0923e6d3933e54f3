//! `d * q`: float16 `d`, then 32 signed bytes.

use super::half_at;

pub const ELEMS: usize = 32;
pub const BYTES: usize = 2 + 32;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let d = half_at(block, 0);
    for (o, &q) in out.iter_mut().zip(&block[2..]) {
        *o = d * f32::from(q as i8);
    }
}
