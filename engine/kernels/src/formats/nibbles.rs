//! What formats with four bits a number in one place share, and further bits elsewhere.
//!
//! Unpacked, a part of 32 columns is eight vectors of 32 bytes: lane `r` of vector `s` holds columns `4 s .. 4 s + 4`
//! of row `r`. Packed, vectors `s` and `s + 4` are the low and high nibbles of the same 32 bytes, which is also
//! how the blocks of files hold elements `i` and `i + 16`.

use super::ROWS;
use crate::lanes::Lanes;

/// Bytes of the nibbles of 32 columns of all rows.
pub(super) const BYTES: usize = 4 * 32;

/// Packs the low nibbles of 32 numbers a row to 128 bytes.
pub(super) fn pack(rows: &[[u8; 32]; ROWS], to: &mut [u8]) {
    for (j, to) in to.chunks_exact_mut(32).enumerate() {
        for (row, to) in rows.iter().zip(to.chunks_exact_mut(4)) {
            for (c, to) in to.iter_mut().enumerate() {
                *to = row[4 * j + c] & 15 | row[16 + 4 * j + c] << 4;
            }
        }
    }
}

/// Packs one bit of 32 numbers a row to 32 bytes: bit `s` of byte `c` of a lane is bit `bit` of column `4 s + c`.
pub(super) fn pack_bit(rows: &[[u8; 32]; ROWS], bit: u32, to: &mut [u8]) {
    for (row, to) in rows.iter().zip(to.chunks_exact_mut(4)) {
        for (c, to) in to.iter_mut().enumerate() {
            *to = (0..8).fold(0, |byte, s| byte | (row[4 * s + c] >> bit & 1) << s);
        }
    }
}

/// The four-bit numbers of a block whose byte `i` holds element `i` low and element `i + 16` high (Q4_0 to Q5_1).
pub(super) fn halves(bytes: &[u8]) -> [u8; 32] {
    let mut q = [0; 32];
    for (i, b) in bytes[..16].iter().enumerate() {
        q[i] = b & 15;
        q[i + 16] = b >> 4;
    }
    q
}

/// The same with the fifth bits of the four bytes before them.
pub(super) fn five_bits(bytes: &[u8]) -> [u8; 32] {
    let mut q = halves(&bytes[4..]);
    for (i, q) in q.iter_mut().enumerate() {
        *q |= (bytes[i / 8] >> (i % 8) & 1) << 4;
    }
    q
}

/// A part's nibbles.
///
/// # Safety
/// `p` is readable for 128 bytes.
#[inline(always)]
pub(super) unsafe fn unpack<L: Lanes>(p: *const u8) -> [L::Bytes; 8] {
    let mut q = [L::splat_byte(0); 8];
    for j in 0..4 {
        // SAFETY: the caller vouches for 128 bytes.
        let v = unsafe { L::load_bytes(p.add(32 * j)) };
        (q[j], q[4 + j]) = (L::shr_and::<0>(v, 15), L::shr_and::<4>(v, 15));
    }
    q
}

/// The bits that [`pack_bit`] packed, moved to bit 4 of each number.
///
/// # Safety
/// `p` is readable for 32 bytes.
#[inline(always)]
pub(super) unsafe fn fifth_bits<L: Lanes>(p: *const u8) -> [L::Bytes; 8] {
    // SAFETY: the caller vouches for 32 bytes.
    let v = unsafe { L::load_bytes(p) };
    [
        L::shl_and::<4>(v, 16),
        L::shl_and::<3>(v, 16),
        L::shl_and::<2>(v, 16),
        L::shl_and::<1>(v, 16),
        L::shr_and::<0>(v, 16),
        L::shr_and::<1>(v, 16),
        L::shr_and::<2>(v, 16),
        L::shr_and::<3>(v, 16),
    ]
}

/// Nibbles and the bits above them.
#[inline(always)]
pub(super) fn or<L: Lanes>(low: [L::Bytes; 8], high: [L::Bytes; 8]) -> [L::Bytes; 8] {
    let mut q = low;
    for (q, high) in q.iter_mut().zip(high) {
        *q = L::or(*q, high);
    }
    q
}
