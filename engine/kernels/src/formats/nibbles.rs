//! Four-bit numbers of eight rows: 32 bytes hold eight columns, dword `r` those of row `r`, column `i` in bits
//! `4 i ..`.

use super::ROWS;
use crate::lanes::Lanes;

/// Packs the low nibbles of 32 numbers a row to 128 bytes.
pub(super) fn pack(rows: &[[u8; 32]; ROWS], to: &mut [u8]) {
    for (j, to) in to.chunks_exact_mut(32).enumerate() {
        for (row, to) in rows.iter().zip(to.chunks_exact_mut(4)) {
            for (pair, to) in row[8 * j..8 * j + 8].chunks_exact(2).zip(to) {
                *to = pair[0] & 15 | pair[1] << 4;
            }
        }
    }
}

/// The numbers of a block whose byte `i` holds element `i` low and element `i + 16` high (Q4_0 to Q5_1).
pub(super) fn halves(bytes: &[u8]) -> [u8; 32] {
    let mut q = [0; 32];
    for (i, b) in bytes[..16].iter().enumerate() {
        q[i] = b & 15;
        q[i + 16] = b >> 4;
    }
    q
}

/// Eight columns, column `i` multiplied by `16^i` for `i < 7`: each costs one instruction before its conversion.
///
/// # Safety
/// `p` is readable for 32 bytes.
#[inline(always)]
pub(super) unsafe fn shifted<L: Lanes>(p: *const u8) -> [L; 8] {
    // SAFETY: the caller vouches for 32 bytes.
    let v = unsafe { L::load_int(p) };
    [
        L::float(L::and(v, 0xf)),
        L::float(L::and(v, 0xf0)),
        L::float(L::and(v, 0xf00)),
        L::float(L::and(v, 0xf000)),
        L::float(L::and(v, 0xf_0000)),
        L::float(L::and(v, 0xf0_0000)),
        L::float(L::and(v, 0xf00_0000)),
        // The top nibble would be a negative number where it lies.
        L::float(L::shr(v, 28)),
    ]
}

/// Eight columns as they are, with `BITS` more bits each: those of column `i` in bits `BITS * i ..` of the lanes
/// of `high`.
///
/// # Safety
/// `p` is readable for 32 bytes.
#[inline(always)]
pub(super) unsafe fn extended<L: Lanes, const BITS: u32>(p: *const u8, high: L::Int) -> [L; 8] {
    // SAFETY: the caller vouches for 32 bytes.
    let v = unsafe { L::load_int(p) };
    let mut q = [L::zero(); 8];
    for (i, q) in q.iter_mut().enumerate() {
        let low = L::and(L::shr(v, 4 * i as u32), 15);
        let high = L::and(L::shr(high, BITS * i as u32), (1 << BITS) - 1);
        *q = L::float(L::add_shl(low, high, 4));
    }
    q
}
