//! Q8_0: `d q`. A block is 8 f16 scales, then `[32 columns][8 rows]` signed bytes.

use super::{interleave, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q8_0;

impl Format for Q8_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + 256;
    const PART: usize = 32;
    const OFFSET: bool = false;
    const SHIFTED: bool = false;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        for (k, to) in block[16..].chunks_exact_mut(ROWS).enumerate() {
            for (row, to) in rows.iter().zip(to) {
                *to = row[2 + k];
            }
        }
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        let mut q = [L::zero(); 8];
        for (i, q) in q.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the block; column `8 j + i` is within it.
            *q = L::float(unsafe { L::load_i8(block.add(16 + (8 * j + i) * ROWS)) });
        }
        q
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, _part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block) }
    }

    #[inline(always)]
    unsafe fn offset<L: Lanes>(_block: *const u8, _part: usize) -> L {
        L::zero()
    }
}
