//! Q4_K: 256 elements: f16 scale and minimum, 8 six-bit scales and minima, nibbles; `d sc q - dmin m`.

use super::{k_scales::scale_min, Format};
use crate::backend::cpu::lanes::{Lanes, LANES};

pub(crate) struct Q4K;

impl Format for Q4K {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the 144 bytes of the unit's block.
        unsafe {
            let block = row.add(unit / 8 * 144);
            let (sc, m) = scale_min(block.add(4), unit % 8);
            let d = L::f16(block) * f32::from(sc);
            let m = L::f16(block.add(2)) * f32::from(m);
            // Units 2j and 2j + 1 are the low and the high nibbles of the same 32 bytes.
            let bytes = block.add(16 + unit % 8 / 2 * 32);
            let shift = unit as u32 % 2 * 4;
            let (d, m) = (L::splat(d), L::splat(-m));
            let mut w = [d; 4];
            for (i, w) in w.iter_mut().enumerate() {
                let q = L::and(L::shr(L::load_u8(bytes.add(i * LANES)), shift), 15);
                *w = L::float(q).mul_add(d, m);
            }
            w
        }
    }
}
