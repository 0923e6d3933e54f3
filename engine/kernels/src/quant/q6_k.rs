//! `(d * scale) * (q - 32)`: 128 bytes of low nibbles, 64 bytes of upper two bits, 16 signed scales (one for
//! 16 elements), float16 `d`. Each half of 128 elements has four groups of 32: group `g` takes nibble `g / 2`
//! of bytes `32 (g % 2) ..` of its 64 low bytes, and bits `2 g, 2 g + 1` of its 32 high bytes.

use super::half_at;
use super::quantize::{extreme, half_bytes, inverse};
use super::search::symmetric;

pub const ELEMS: usize = 256;
pub const BYTES: usize = 128 + 64 + 16 + 2;

pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; ELEMS]) {
    let d = half_at(block, 208);
    for (s, sub) in out.chunks_exact_mut(16).enumerate() {
        let scale = d * f32::from(block[192 + s] as i8);
        let (half, g, i) = (s / 8, s / 2 % 4, s % 2 * 16);
        let low = &block[half * 64 + g % 2 * 32 + i..][..16];
        let high = &block[128 + half * 32 + i..][..16];
        for ((o, &l), &h) in sub.iter_mut().zip(low).zip(high) {
            let q = l >> (g / 2 * 4) & 15 | (h >> (g * 2) & 3) << 4;
            *o = scale * (f32::from(q) - 32.0);
        }
    }
}

/// The scales are searched: see [`super::search`]. The extreme one becomes -128.
pub fn quantize(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    block.fill(0);
    let mut fits = [0.0; 16];
    for (fit, sub) in fits.iter_mut().zip(values.chunks_exact(16)) {
        *fit = symmetric(sub, 32);
    }
    let step = extreme(&fits) / -128.0;
    block[208..].copy_from_slice(&half_bytes(step));
    let d = half_at(block, 208);
    for (s, (sub, fit)) in values.chunks_exact(16).zip(fits).enumerate() {
        let scale = (fit * inverse(step)).round_ties_even().clamp(-128.0, 127.0);
        block[192 + s] = scale as i8 as u8;
        let id = inverse(d * scale);
        let (half, g, at) = (s / 8, s / 2 % 4, s % 2 * 16);
        for (i, x) in sub.iter().enumerate() {
            let q = ((x * id).round_ties_even().clamp(-32.0, 31.0) + 32.0) as u8;
            block[half * 64 + g % 2 * 32 + at + i] |= (q & 15) << (g / 2 * 4);
            block[128 + half * 32 + at + i] |= q >> 4 << (g * 2);
        }
    }
}
