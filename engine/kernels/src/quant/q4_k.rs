//! `(d * scale) * q - (dmin * min)`: float16 `d` and `dmin`, 12 bytes of scales and minima for eight sub-blocks
//! of 32, then 128 bytes of nibbles: bytes `32 g ..` hold sub-block `2 g` (low) and `2 g + 1` (high).

use super::half_at;
use super::scales::{quantize_affine, scale_min};
use super::search::Grids;

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

/// The scales are searched: see [`super::search`].
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    block.fill(0);
    let q = quantize_affine(values, 15, &Grids { first: -1.0, count: 21 }, &mut block[..]);
    for (pair, bytes) in q.chunks_exact(64).zip(block[16..].chunks_exact_mut(32)) {
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = pair[i] | pair[i + 32] << 4;
        }
    }
}
