//! Q6_K: `d sc (q - 32)`, a scale for every 16 columns. A block is 8 f16 scales; for each of 16 half parts 8 signed
//! byte scales; for each of 8 parts two vectors of upper bits and the nibbles.
//!
//! Bits `2 i ..` of the bytes of the first vector of upper bits belong to vector `i` of the numbers, those of the
//! second to vector `4 + i`.

use super::{interleave, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q6K;

const SCALES: usize = 16;
const PARTS: usize = SCALES + 16 * 8;

/// Bytes of a part.
const PART: usize = 64 + nibbles::BYTES;

/// The numbers of columns `32 * part ..` of a file's block: each half of it (four parts) has 64 bytes of nibbles
/// and 32 bytes of upper bits.
fn numbers(block: &[u8], part: usize) -> [u8; 32] {
    let (half, quarter) = (part / 4, part % 4);
    std::array::from_fn(|i| {
        let low = block[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        let upper = block[128 + half * 32 + i] >> (quarter * 2) & 3;
        low | upper << 4
    })
}

impl Packed for Q6K {
    const COLS: usize = 256;
    const BYTES: usize = PARTS + 8 * PART;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 208, &mut block[..16]);
        for (half, to) in block[SCALES..PARTS].chunks_exact_mut(8).enumerate() {
            interleave::<1>(&rows, 192 + half, to);
        }
        for (part, to) in block[PARTS..].chunks_exact_mut(PART).enumerate() {
            let q = rows.map(|r| numbers(r, part));
            for (half, to) in to[..64].chunks_exact_mut(32).enumerate() {
                for (q, to) in q.iter().zip(to.chunks_exact_mut(4)) {
                    for (c, to) in to.iter_mut().enumerate() {
                        let upper = |i: usize| q[16 * half + 4 * i + c] >> 4 << (2 * i);
                        *to = upper(0) | upper(1) | upper(2) | upper(3);
                    }
                }
            }
            nibbles::pack(&q, &mut to[64..]);
        }
    }
}

impl Quantised for Q6K {
    const BITS: u32 = 6;
    const ZERO: i32 = 32;
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        let (low, a, b) = unsafe {
            let at = block.add(PARTS + PART * part);
            (nibbles::unpack::<L>(at.add(64)), L::load_bytes(at), L::load_bytes(at.add(32)))
        };
        let upper = [
            L::shl_and::<4>(a, 48),
            L::shl_and::<2>(a, 48),
            L::shr_and::<0>(a, 48),
            L::shr_and::<2>(a, 48),
            L::shl_and::<4>(b, 48),
            L::shl_and::<2>(b, 48),
            L::shr_and::<0>(b, 48),
            L::shr_and::<2>(b, 48),
        ];
        nibbles::or::<L>(low, upper)
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, half: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block).mul(L::float(L::load_i8(block.add(SCALES + 8 * half)))) }
    }
}
