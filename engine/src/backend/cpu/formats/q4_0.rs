//! Q4_0: f16 scale, 32 nibbles; `d * (q - 8)`.

use super::{nibbles, Format};
use crate::backend::cpu::lanes::Lanes;

pub(crate) struct Q4_0;

impl Format for Q4_0 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the unit's 18 bytes.
        let (d, q) = unsafe {
            let block = row.add(unit * 18);
            (L::f16(block), nibbles::<L>(block.add(2)))
        };
        // `d` has 11 significant bits: `d q` and `-8 d` are exact, and so is their sum, fused or not.
        super::affine(q, d, -8.0 * d)
    }
}
