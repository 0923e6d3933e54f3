//! Q4_0: `d (q - 8)`. A block is 8 f16 scales, then 4 times 32 bytes of nibbles.

use super::{interleave, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q4_0;

impl Format for Q4_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + 128;
    const PART: usize = 32;
    const OFFSET: bool = true;
    const SHIFTED: bool = true;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        nibbles::pack(&rows.map(|r| nibbles::halves(&r[2..])), &mut block[16..]);
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::shifted(block.add(16 + 32 * j)) }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }

    #[inline(always)]
    unsafe fn offset<L: Lanes>(block: *const u8, part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { Self::scale::<L>(block, part) }.mul(L::splat(-8.0))
    }
}
