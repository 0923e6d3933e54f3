//! Q4_0: `d (q - 8)`. A block is 8 f16 scales, then the nibbles.

use super::{interleave, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q4_0;

impl Packed for Q4_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + nibbles::BYTES;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        nibbles::pack(&rows.map(|r| nibbles::halves(&r[2..])), &mut block[16..]);
    }
}

impl Quantised for Q4_0 {
    const BITS: u32 = 4;
    const ZERO: i32 = 8;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, _part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::unpack::<L>(block.add(16)) }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }
}
