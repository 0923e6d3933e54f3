//! Q5_0: `d (q - 16)`. A block is 8 f16 scales, the fifth bits, then the nibbles.

use super::{interleave, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q5_0;

impl Packed for Q5_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + 32 + nibbles::BYTES;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        let q = rows.map(|r| nibbles::five_bits(&r[2..]));
        nibbles::pack_bit(&q, 4, &mut block[16..48]);
        nibbles::pack(&q, &mut block[48..]);
    }
}

impl Quantised for Q5_0 {
    const BITS: u32 = 5;
    const ZERO: i32 = 16;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, _part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            nibbles::or::<L>(nibbles::unpack::<L>(block.add(48)), nibbles::fifth_bits::<L>(block.add(16)))
        }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }
}
