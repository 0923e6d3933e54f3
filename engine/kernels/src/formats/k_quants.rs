//! What Q4_K and Q5_K share: 8 parts with a six-bit scale and a six-bit minimum each.
//!
//! A block begins with 8 f16 scales and 8 f16 minima (one a row), then for each part 8 byte scales and 8 byte
//! minima.

use super::{interleave, ROWS};
use crate::lanes::Lanes;
use crate::quant::six_bits;

/// Bytes of what a block begins with.
pub(super) const HEAD: usize = 32 + 8 * 16;

pub(super) fn pack_head(rows: &[&[u8]; ROWS], block: &mut [u8]) {
    interleave::<2>(rows, 0, &mut block[..16]);
    interleave::<2>(rows, 2, &mut block[16..32]);
    for (part, to) in block[32..HEAD].chunks_exact_mut(16).enumerate() {
        for (r, row) in rows.iter().enumerate() {
            (to[r], to[8 + r]) = six_bits(&row[4..16], part);
        }
    }
}

/// The four-bit numbers of part `part`: parts `2 i` and `2 i + 1` are the low and high nibbles of 32 bytes.
pub(super) fn numbers(nibbles: &[u8], part: usize) -> [u8; 32] {
    std::array::from_fn(|i| nibbles[part / 2 * 32 + i] >> (part % 2 * 4) & 15)
}

/// # Safety
/// `block` is readable for `HEAD` bytes and `part < 8`.
#[inline(always)]
pub(super) unsafe fn scale<L: Lanes>(block: *const u8, part: usize) -> L {
    // SAFETY: the caller vouches for the head.
    unsafe { L::load_f16(block).mul(L::float(L::load_u8(block.add(32 + 16 * part)))) }
}

/// # Safety
/// `block` is readable for `HEAD` bytes and `part < 8`.
#[inline(always)]
pub(super) unsafe fn offset<L: Lanes>(block: *const u8, part: usize) -> L {
    // SAFETY: the caller vouches for the head.
    let min = unsafe { L::load_f16(block.add(16)).mul(L::float(L::load_u8(block.add(40 + 16 * part)))) };
    min.mul(L::splat(-1.0))
}
