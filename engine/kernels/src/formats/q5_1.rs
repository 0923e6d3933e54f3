//! Q5_1: `d q + m`. A block is 8 f16 scales, 8 f16 minima, the fifth bits, then the nibbles.

use super::{interleave, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q5_1;

impl Packed for Q5_1 {
    const COLS: usize = 32;
    const BYTES: usize = 32 + 32 + nibbles::BYTES;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        interleave::<2>(&rows, 2, &mut block[16..32]);
        let q = rows.map(|r| nibbles::five_bits(&r[4..]));
        nibbles::pack_bit(&q, 4, &mut block[32..64]);
        nibbles::pack(&q, &mut block[64..]);
    }
}

impl Quantised for Q5_1 {
    const BITS: u32 = 5;
    const OFFSET: bool = true;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, _part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            nibbles::or::<L>(nibbles::unpack::<L>(block.add(64)), nibbles::fifth_bits::<L>(block.add(32)))
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
