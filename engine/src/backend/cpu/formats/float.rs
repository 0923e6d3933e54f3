//! F32, F16 and BF16: rows of plain numbers.

use super::{Format, UNIT};
use crate::backend::cpu::lanes::{Lanes, LANES};

pub(crate) struct F32;
pub(crate) struct F16;
pub(crate) struct Bf16;

impl Format for F32 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        let mut w = [L::zero(); 4];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the unit's 128 bytes; loads need no alignment.
            *w = unsafe { L::load(row.add(unit * UNIT * 4 + i * LANES * 4).cast()) };
        }
        w
    }
}

impl Format for F16 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        let mut w = [L::zero(); 4];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the unit's 64 bytes.
            *w = unsafe { L::load_f16(row.add(unit * UNIT * 2 + i * LANES * 2)) };
        }
        w
    }
}

impl Format for Bf16 {
    #[inline(always)]
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4] {
        let mut w = [L::zero(); 4];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the unit's 64 bytes.
            *w = unsafe { L::load_bf16(row.add(unit * UNIT * 2 + i * LANES * 2)) };
        }
        w
    }
}
