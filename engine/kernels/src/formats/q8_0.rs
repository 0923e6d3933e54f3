//! Q8_0: `d q`. A block is 8 f16 scales, then eight vectors of the numbers plus 128: lane `r` of vector `s` holds
//! columns `4 s .. 4 s + 4` of row `r`.

use super::{interleave, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q8_0;

impl Packed for Q8_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + 256;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        for (s, to) in block[16..].chunks_exact_mut(32).enumerate() {
            for (row, to) in rows.iter().zip(to.chunks_exact_mut(4)) {
                for (c, to) in to.iter_mut().enumerate() {
                    *to = row[2 + 4 * s + c] ^ 0x80;
                }
            }
        }
    }
}

impl Quantised for Q8_0 {
    const BITS: u32 = 8;
    const ZERO: i32 = 128;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, _part: usize) -> [L::Bytes; 8] {
        let mut q = [L::splat_byte(0); 8];
        for (s, q) in q.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the block.
            *q = unsafe { L::load_bytes(block.add(16 + 32 * s)) };
        }
        q
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }
}
