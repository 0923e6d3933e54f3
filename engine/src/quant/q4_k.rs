//! `(d * scale) * q - (dmin * min)`: float16 `d` and `dmin`, 12 bytes of scales and minima for eight sub-blocks
//! of 32, then 128 bytes of nibbles: bytes `32 g ..` hold sub-block `2 g` (low) and `2 g + 1` (high).

use super::{half_at, scales::scale_min};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 2 + 2 + 12 + 128;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (j, sub) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(&block[4..16], j);
        let (scale, min) = (d * scale, dmin * min);
        let nibbles = &block[16 + j / 2 * 32..][..32];
        for (o, &q) in sub.iter_mut().zip(nibbles) {
            *o = scale * f32::from(q >> (j % 2 * 4) & 15) - min;
        }
    }
}
