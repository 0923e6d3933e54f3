//! RMSNorm.

use crate::lanes::{Isa, Kernel, Lanes, LANES};

/// `out = x * rsqrt(mean(x^2) + eps) * weight` for one row; `out` may be `x`.
///
/// Lane `l` sums the squares of `x[l], x[l + 8], ...` in order.
pub struct RmsNorm<'a> {
    /// `[weight.len()]`, readable.
    pub x: *const f32,
    /// What normalised elements are multiplied with.
    pub weight: &'a [f32],
    /// Added to the mean of the squares.
    pub eps: f32,
    /// `[weight.len()]`, writable by this call alone.
    pub out: *mut f32,
}

impl RmsNorm<'_> {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for RmsNorm<'_> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let n = self.weight.len();
        // SAFETY: whoever built this vouches for `n` elements behind each pointer.
        unsafe {
            let mut squares = L::zero();
            for i in (0..n).step_by(LANES) {
                let x = L::load_up_to(self.x.add(i), n - i);
                squares = x.mul_add(x, squares);
            }
            let factor = L::splat(1.0 / (squares.sum() / n as f32 + self.eps).sqrt());
            for i in (0..n).step_by(LANES) {
                let x = L::load_up_to(self.x.add(i), n - i);
                let w = L::load_up_to(self.weight.as_ptr().add(i), n - i);
                x.mul(factor).mul(w).store_up_to(self.out.add(i), n - i);
            }
        }
    }
}
