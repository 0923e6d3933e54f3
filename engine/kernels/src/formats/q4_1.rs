//! Q4_1: `d q + m`. A block is 8 f16 scales, 8 f16 minima, then 4 times 32 bytes of nibbles.

use super::{interleave, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q4_1;

impl Format for Q4_1 {
    const COLS: usize = 32;
    const BYTES: usize = 32 + 128;
    const PART: usize = 32;
    const OFFSET: bool = true;
    const SHIFTED: bool = true;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        interleave::<2>(&rows, 2, &mut block[16..32]);
        nibbles::pack(&rows.map(|r| nibbles::halves(&r[4..])), &mut block[32..]);
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::shifted(block.add(32 + 32 * j)) }
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
