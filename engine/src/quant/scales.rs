//! The eight 6-bit scales and minima that Q4_K and Q5_K pack into 12 bytes.

/// Scale and minimum of sub-block `j` (0..8). Bytes 0..4 hold scales 0..4, bytes 4..8 minima 0..4, both in the
/// low six bits; bytes 8..12 hold the low nibbles of scales (low) and minima (high) 4..8, whose upper two bits
/// are the top bits of bytes 0..8.
pub fn scale_min(packed: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}
