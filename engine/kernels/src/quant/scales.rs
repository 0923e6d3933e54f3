//! The eight 6-bit scales and minima that Q4_K and Q5_K pack into 12 bytes.

use super::half_at;
use super::quantize::{half_bytes, inverse};
use super::search::{affine, Grids};

/// Scale and minimum of sub-block `j` (0..8) as they are stored. Bytes 0..4 hold scales 0..4, bytes 4..8 minima 0..4, both in the
/// low six bits; bytes 8..12 hold the low nibbles of scales (low) and minima (high) 4..8, whose upper two bits
/// are the top bits of bytes 0..8.
pub fn six_bits(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    }
}

/// The same as numbers.
pub fn scale_min(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = six_bits(packed, j);
    (f32::from(scale), f32::from(min))
}

/// Puts scale and minimum of sub-block `j`, both below 64, where [`six_bits`] finds them; `packed` is zero there.
fn pack(packed: &mut [u8], j: usize, scale: u8, min: u8) {
    if j < 4 {
        packed[j] |= scale;
        packed[j + 4] |= min;
    } else {
        packed[j + 4] = scale & 15 | min << 4;
        packed[j - 4] |= scale >> 4 << 6;
        packed[j] |= min >> 4 << 6;
    }
}

/// Chooses what Q4_K and Q5_K have in common: writes `d`, `dmin` and the packed scales into the first 16 bytes of a
/// zeroed block, and returns the integers of all elements on the grids that those bytes describe.
pub fn quantize_affine(values: &[f32; 256], levels: u8, grids: &Grids, block: &mut [u8]) -> [u8; 256] {
    let mut fits = [(0.0, 0.0); 8];
    for (fit, sub) in fits.iter_mut().zip(values.chunks_exact(32)) {
        *fit = affine(sub, levels, grids);
    }
    let largest = fits.iter().fold((0.0f32, 0.0f32), |(s, m), f| (s.max(f.0), m.max(f.1)));
    block[..2].copy_from_slice(&half_bytes(largest.0 / 63.0));
    block[2..4].copy_from_slice(&half_bytes(largest.1 / 63.0));
    let rounded = |x: f32, largest: f32| (63.0 * x * inverse(largest)).round_ties_even().min(63.0) as u8;
    for (j, fit) in fits.iter().enumerate() {
        pack(&mut block[4..16], j, rounded(fit.0, largest.0), rounded(fit.1, largest.1));
    }
    let header: [u8; 16] = std::array::from_fn(|i| block[i]);
    let (d, dmin) = (half_at(&header, 0), half_at(&header, 2));
    let mut out = [0; 256];
    for (j, (sub, q)) in values.chunks_exact(32).zip(out.chunks_exact_mut(32)).enumerate() {
        let (scale, min) = scale_min(&header[4..], j);
        let (inverse, min) = (inverse(d * scale), dmin * min);
        for (q, x) in q.iter_mut().zip(sub) {
            *q = ((x + min) * inverse).round_ties_even().clamp(0.0, levels.into()) as u8;
        }
    }
    out
}
