//! What the processor can do at most, to compare kernels with.

use crate::lanes::{Isa, Kernel, Lanes, LANES};

/// Vectors in flight.
const TOGETHER: usize = 12;

/// A sum of whole vectors of floats, read as fast as one thread can read.
pub fn read(isa: Isa, data: &[u8]) -> f32 {
    isa.call(Read { data })
}

/// Multiply-adds of `rounds` rounds as fast as one thread can multiply: a number that depends on them.
pub fn multiply(isa: Isa, rounds: usize) -> f32 {
    isa.call(Multiply { rounds })
}

/// Multiply-adds of `rounds` rounds.
pub fn multiply_adds(rounds: usize) -> u64 {
    (rounds * TOGETHER * LANES) as u64
}

struct Read<'a> {
    data: &'a [u8],
}

impl Kernel for Read<'_> {
    type Out = f32;
    #[inline(always)]
    fn run<L: Lanes>(self) -> f32 {
        let mut sums = [L::zero(); TOGETHER];
        for chunk in self.data.chunks_exact(TOGETHER * LANES * 4) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the chunk holds that many vectors.
                *sum = sum.add(unsafe { L::load(chunk.as_ptr().cast::<f32>().add(i * LANES)) });
            }
        }
        let mut all = L::zero();
        for sum in sums {
            all = all.add(sum);
        }
        all.sum()
    }
}

struct Multiply {
    rounds: usize,
}

impl Kernel for Multiply {
    type Out = f32;
    #[inline(always)]
    fn run<L: Lanes>(self) -> f32 {
        let (mut sums, factor) = ([L::splat(1.0); TOGETHER], L::splat(0.999));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = sum.mul_add(factor, factor);
            }
        }
        let mut all = L::zero();
        for sum in sums {
            all = all.add(sum);
        }
        all.sum()
    }
}
