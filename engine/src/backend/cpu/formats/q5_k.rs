//! Q5_K: Q4_K with a fifth bit: bit `u` of byte `l` of `qh` belongs to element `l` of unit `u`.

use super::{k_scales::scale_min, Format};
use crate::backend::cpu::lanes::{Lanes, LANES};

pub(crate) struct Q5K;

impl Format for Q5K {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the 176 bytes of the unit's block.
        unsafe {
            let block = row.add(unit / 8 * 176);
            let (sc, m) = scale_min(block.add(4), unit % 8);
            let d = L::f16(block) * f32::from(sc);
            let m = L::f16(block.add(2)) * f32::from(m);
            let high = block.add(16);
            let bytes = block.add(48 + unit % 8 / 2 * 32);
            let shift = unit as u32 % 2 * 4;
            let (d, m) = (L::splat(d), L::splat(-m));
            let mut w = [d; 4];
            for (i, w) in w.iter_mut().enumerate() {
                let low = L::and(L::shr(L::load_u8(bytes.add(i * LANES)), shift), 15);
                let fifth = L::and(L::shr(L::load_u8(high.add(i * LANES)), unit as u32 % 8), 1);
                *w = L::float(L::add_shl(low, fifth, 4)).mul_add(d, m);
            }
            w
        }
    }
}
