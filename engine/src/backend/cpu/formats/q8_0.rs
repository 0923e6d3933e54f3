//! Q8_0: f16 scale, 32 signed bytes; `d * q`.

use super::Format;
use crate::backend::cpu::lanes::{Lanes, LANES};

pub(crate) struct Q8_0;

impl Format for Q8_0 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the unit's 34 bytes.
        unsafe {
            let block = row.add(unit * 34);
            let d = L::splat(L::f16(block));
            let mut w = [d; 4];
            for (i, w) in w.iter_mut().enumerate() {
                *w = L::float(L::load_i8(block.add(2 + i * LANES))).mul(d);
            }
            w
        }
    }
}
