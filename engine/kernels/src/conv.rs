//! Gated short convolution of one sequence's tokens.

use crate::lanes::{Isa, Kernel, Lanes, LANES};

/// `u = B * x`, then `y[t] = C[t] * sum_j kernel[j] * u[t - (taps - 1) + j]`, for some channels of one sequence.
///
/// All pointers are to the first channel of the whole row; elements of `channels` are touched.
pub struct Convolve {
    /// Those to compute.
    pub channels: std::ops::Range<usize>,
    /// Channels of a whole row.
    pub width: usize,
    /// Rows.
    pub tokens: usize,
    /// Rows of the kernel.
    pub taps: usize,
    /// `[taps][width]`.
    pub kernel: *const f32,
    /// `[tokens][3 * width]`: B, C, x.
    pub bcx: *const f32,
    /// `[taps - 1 + tokens][width]`; the rows before the first token are given, the others are written.
    pub u: *mut f32,
    /// `[tokens][width]`, written.
    pub y: *mut f32,
}

impl Convolve {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Convolve {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for t in 0..self.tokens {
            for c in self.channels.clone().step_by(LANES) {
                let n = self.channels.end - c;
                // SAFETY: whoever built this vouches for the shapes above; `c + min(n, 8) <= channels.end`.
                unsafe {
                    let bcx = self.bcx.add(t * 3 * self.width + c);
                    let x = L::load_up_to(bcx.add(2 * self.width), n);
                    let u = L::load_up_to(bcx, n).mul(x);
                    u.store_up_to(self.u.add((t + self.taps - 1) * self.width + c), n);
                    let mut sum = L::zero();
                    for j in 0..self.taps {
                        let k = L::load_up_to(self.kernel.add(j * self.width + c), n);
                        sum = k.mul_add(L::load_up_to(self.u.add((t + j) * self.width + c), n), sum);
                    }
                    let gate = L::load_up_to(bcx.add(self.width), n);
                    gate.mul(sum).store_up_to(self.y.add(t * self.width + c), n);
                }
            }
        }
    }
}
