//! Q5_1: `d q + m`. A block is 8 f16 scales, 8 f16 minima, 8 dwords of fifth bits (bit `k` for column `k`), then
//! 4 times 32 bytes of nibbles.

use super::{interleave, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q5_1;

impl Format for Q5_1 {
    const COLS: usize = 32;
    const BYTES: usize = 32 + 32 + 128;
    const PART: usize = 32;
    const OFFSET: bool = true;
    const SHIFTED: bool = false;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        interleave::<2>(&rows, 2, &mut block[16..32]);
        interleave::<4>(&rows, 4, &mut block[32..64]);
        nibbles::pack(&rows.map(|r| nibbles::halves(&r[8..])), &mut block[64..]);
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            let fifth = L::shr(L::load_int(block.add(32)), 8 * j as u32);
            nibbles::extended::<L, 1>(block.add(64 + 32 * j), fifth)
        }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }

    #[inline(always)]
    unsafe fn offset<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block.add(16)) }
    }
}
