//! Q6_K: 256 elements: low nibbles, upper two bits, 16 signed scales (one for 16 elements), f16 scale;
//! `d sc (q - 32)`.

use super::Format;
use crate::backend::cpu::lanes::{Lanes, LANES};

pub(crate) struct Q6K;

impl Format for Q6K {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        // SAFETY: the caller vouches for the 210 bytes of the unit's block.
        unsafe {
            let block = row.add(unit / 8 * 210);
            // Each half of the block (128 elements, four units) has 64 bytes of nibbles and 32 of upper bits.
            let (half, quarter) = (unit % 8 / 4, unit % 4);
            let low = block.add(half * 64 + quarter % 2 * 32);
            let low_shift = quarter as u32 / 2 * 4;
            let high = block.add(128 + half * 32);
            let high_shift = quarter as u32 * 2;
            let scales = block.add(192 + half * 8 + quarter * 2);
            let d = L::f16(block.add(208));
            let mut w = [L::zero(); 4];
            for (i, w) in w.iter_mut().enumerate() {
                let q = L::and(L::shr(L::load_u8(low.add(i * LANES)), low_shift), 15);
                let h = L::and(L::shr(L::load_u8(high.add(i * LANES)), high_shift), 3);
                let scale = d * f32::from(*scales.add(i / 2) as i8);
                // `scale` has at most 18 significant bits: the products are exact, fused or not.
                *w = L::float(L::add_shl(q, h, 4)).mul_add(L::splat(scale), L::splat(-32.0 * scale));
            }
            w
        }
    }
}
