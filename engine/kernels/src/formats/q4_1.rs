//! Q4_1: `d q + m`. A block is 8 f16 scales, 8 f16 minima, then the nibbles.

use super::{interleave, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q4_1;

impl Packed for Q4_1 {
    const COLS: usize = 32;
    const BYTES: usize = 32 + nibbles::BYTES;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        interleave::<2>(&rows, 2, &mut block[16..32]);
        nibbles::pack(&rows.map(|r| nibbles::halves(&r[4..])), &mut block[32..]);
    }
}

impl Quantised for Q4_1 {
    const BITS: u32 = 4;
    const OFFSET: bool = true;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, _part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::unpack::<L>(block.add(32)) }
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
