//! Q4_1: f16 scale, f16 minimum, 32 nibbles; `d * q + m`.

use super::{nibbles, Format};
use crate::backend::cpu::lanes::Lanes;

pub(crate) struct Q4_1;

impl Format for Q4_1 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the unit's 20 bytes.
        let (d, m, q) = unsafe {
            let block = row.add(unit * 20);
            (L::f16(block), L::f16(block.add(2)), nibbles::<L>(block.add(4)))
        };
        super::affine(q, d, m)
    }
}
