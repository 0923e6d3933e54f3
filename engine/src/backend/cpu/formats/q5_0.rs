//! Q5_0: f16 scale, 32 fifth bits, 32 nibbles; `d * (q - 16)`.

use super::{fifth_bits, nibbles, Format};
use crate::backend::cpu::lanes::Lanes;

pub(crate) struct Q5_0;

impl Format for Q5_0 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the unit's 22 bytes.
        let (d, high, q) = unsafe {
            let block = row.add(unit * 22);
            (L::f16(block), block.add(2).cast::<u32>().read_unaligned(), nibbles::<L>(block.add(6)))
        };
        // Exact, as in Q4_0.
        super::affine(fifth_bits::<L>(q, u32::from_le(high)), d, -16.0 * d)
    }
}
