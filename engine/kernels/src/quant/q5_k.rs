//! Q4_K with a fifth bit: float16 `d` and `dmin`, 12 bytes of scales and minima, 32 bytes whose bit `j` of byte
//! `i` is the fifth bit of element `i` of sub-block `j`, then 128 bytes of nibbles as in Q4_K.

use super::half_at;
use super::scales::{quantize_affine, scale_min};
use super::search::Grids;

pub const ELEMS: usize = 256;
pub const BYTES: usize = 2 + 2 + 12 + 32 + 128;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let high = &block[16..48];
    for (j, sub) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(&block[4..16], j);
        let (scale, min) = (d * scale, dmin * min);
        let nibbles = &block[48 + j / 2 * 32..][..32];
        for ((o, &q), &h) in sub.iter_mut().zip(nibbles).zip(high) {
            let q = q >> (j % 2 * 4) & 15 | (h >> j & 1) << 4;
            *o = scale * f32::from(q) - min;
        }
    }
}

/// The scales are searched: see [`super::search`].
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    block.fill(0);
    let q = quantize_affine(values, 31, &Grids { first: -0.5, count: 16 }, &mut block[..]);
    for (j, sub) in q.chunks_exact(32).enumerate() {
        for (i, q) in sub.iter().enumerate() {
            block[16 + i] |= q >> 4 << j;
            block[48 + j / 2 * 32 + i] |= (q & 15) << (j % 2 * 4);
        }
    }
}
