//! How each storage type becomes numbers: one file a format, one source for all instruction sets.

mod float;
mod k_scales;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

pub(crate) use float::{Bf16, F16, F32};
pub(crate) use q4_0::Q4_0;
pub(crate) use q4_1::Q4_1;
pub(crate) use q4_k::Q4K;
pub(crate) use q5_0::Q5_0;
pub(crate) use q5_1::Q5_1;
pub(crate) use q5_k::Q5K;
pub(crate) use q6_k::Q6K;
pub(crate) use q8_0::Q8_0;

use super::lanes::Lanes;
use crate::quant::DType;

/// Elements that a format unpacks at once: four vectors.
pub(crate) const UNIT: usize = 32;

/// A layout of a row of weights in memory.
pub(crate) trait Format {
    /// Unpacks elements `UNIT * unit ..` of a row.
    ///
    /// # Safety
    /// `row` points to a whole row of this format that has more than `unit` units.
    unsafe fn unit<L: Lanes>(row: *const u8, unit: usize) -> [L; 4];
}

/// A computation that is compiled once a format.
pub(crate) trait ForFormat {
    /// What it returns.
    type Out;
    /// The computation.
    fn run<F: Format>(self) -> Self::Out;
}

/// Runs a computation for a storage type's format.
#[inline]
pub(crate) fn for_format<C: ForFormat>(dtype: DType, computation: C) -> C::Out {
    match dtype {
        DType::F32 => computation.run::<F32>(),
        DType::F16 => computation.run::<F16>(),
        DType::BF16 => computation.run::<Bf16>(),
        DType::Q4_0 => computation.run::<Q4_0>(),
        DType::Q4_1 => computation.run::<Q4_1>(),
        DType::Q5_0 => computation.run::<Q5_0>(),
        DType::Q5_1 => computation.run::<Q5_1>(),
        DType::Q8_0 => computation.run::<Q8_0>(),
        DType::Q4_K => computation.run::<Q4K>(),
        DType::Q5_K => computation.run::<Q5K>(),
        DType::Q6_K => computation.run::<Q6K>(),
    }
}

/// The low and high nibbles of 16 bytes: elements 0 to 15 and 16 to 31 of a 32-element block.
///
/// # Safety
/// `p` is readable for 16 bytes.
#[inline(always)]
unsafe fn nibbles<L: Lanes>(p: *const u8) -> [L::Int; 4] {
    // SAFETY: the caller vouches for 16 bytes.
    let (a, b) = unsafe { (L::load_u8(p), L::load_u8(p.add(8))) };
    [L::and(a, 15), L::and(b, 15), L::shr(a, 4), L::shr(b, 4)]
}

/// Adds the fifth bits, bit `i` of `high` to element `i`.
#[inline(always)]
fn fifth_bits<L: Lanes>(q: [L::Int; 4], high: u32) -> [L::Int; 4] {
    [
        L::add_shl(q[0], L::bits(high, 0), 4),
        L::add_shl(q[1], L::bits(high, 8), 4),
        L::add_shl(q[2], L::bits(high, 16), 4),
        L::add_shl(q[3], L::bits(high, 24), 4),
    ]
}

/// `scale * q + offset`.
#[inline(always)]
fn affine<L: Lanes>(q: [L::Int; 4], scale: f32, offset: f32) -> [L; 4] {
    let (scale, offset) = (L::splat(scale), L::splat(offset));
    let mut w = [L::zero(); 4];
    // A loop, not `map`: closures are not sure to be inlined into the code that has the CPU features.
    for i in 0..4 {
        w[i] = L::float(q[i]).mul_add(scale, offset);
    }
    w
}
