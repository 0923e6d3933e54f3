//! Q5_1: f16 scale, f16 minimum, 32 fifth bits, 32 nibbles; `d * q + m`.

use super::{fifth_bits, nibbles, Format};
use crate::backend::cpu::lanes::Lanes;

pub(crate) struct Q5_1;

impl Format for Q5_1 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the unit's 24 bytes.
        let (d, m, high, q) = unsafe {
            let block = row.add(unit * 24);
            let high = block.add(4).cast::<u32>().read_unaligned();
            (L::f16(block), L::f16(block.add(2)), high, nibbles::<L>(block.add(8)))
        };
        super::affine(fifth_bits::<L>(q, u32::from_le(high)), d, m)
    }
}
