//! F32, F16 and BF16: `[32 columns][8 rows]` plain numbers.

use super::{Packed, Plain, ROWS, UNIT};
use crate::lanes::Lanes;

pub struct F32;
pub struct F16;
pub struct Bf16;

fn transpose<const N: usize>(rows: [&[u8]; ROWS], block: &mut [u8]) {
    for (k, to) in block.chunks_exact_mut(N * ROWS).enumerate() {
        for (row, to) in rows.iter().zip(to.chunks_exact_mut(N)) {
            to.copy_from_slice(&row[k * N..(k + 1) * N]);
        }
    }
}

macro_rules! float_format {
    ($name:ident, $bytes:literal, $load:expr) => {
        impl Packed for $name {
            const COLS: usize = UNIT;
            const BYTES: usize = UNIT * ROWS * $bytes;

            fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
                transpose::<$bytes>(rows, block);
            }
        }

        impl Plain for $name {
            #[inline(always)]
            unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
                let mut q = [L::zero(); 8];
                for (i, q) in q.iter_mut().enumerate() {
                    // SAFETY: the caller vouches for the block; column `8 j + i` is within it.
                    *q = unsafe { $load(block.add((8 * j + i) * ROWS * $bytes).cast()) };
                }
                q
            }
        }
    };
}

float_format!(F32, 4, L::load);
float_format!(F16, 2, L::load_f16);
float_format!(Bf16, 2, L::load_bf16);
