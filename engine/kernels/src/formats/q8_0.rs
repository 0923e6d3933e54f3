//! Q8_0: `d q`. A block is 8 f16 scales, then `[32 columns][8 rows]` signed bytes.
//!
//! Plain numbers to a product: `d q` is exact in float32, and three digits of activations would take more
//! multiplications of bytes than there are of floats.

use super::{interleave, Packed, Plain, ROWS};
use crate::lanes::Lanes;

pub struct Q8_0;

impl Packed for Q8_0 {
    const COLS: usize = 32;
    const BYTES: usize = 16 + 256;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 0, &mut block[..16]);
        for (k, to) in block[16..].chunks_exact_mut(ROWS).enumerate() {
            for (row, to) in rows.iter().zip(to) {
                *to = row[2 + k];
            }
        }
    }
}

impl Plain for Q8_0 {
    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        let mut q = [L::zero(); 8];
        // SAFETY: the caller vouches for the block; column `8 j + i` is within it.
        unsafe {
            let scale = L::load_f16(block);
            for (i, q) in q.iter_mut().enumerate() {
                *q = L::float(L::load_i8(block.add(16 + (8 * j + i) * ROWS))).mul(scale);
            }
        }
        q
    }
}
