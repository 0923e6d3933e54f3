//! The gate of the feed-forward.

use super::lanes::{Kernel, Lanes, LANES};
use crate::backend::math;
use crate::model::plan::Activation;

/// `gate = act(gate) * up` for `n` elements.
pub(crate) struct Gate {
    /// `[n]`, writable by this call alone.
    pub(crate) gate: *mut f32,
    /// `[n]`, readable.
    pub(crate) up: *const f32,
    pub(crate) n: usize,
    pub(crate) activation: Activation,
}

impl Kernel for Gate {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for i in (0..self.n).step_by(LANES) {
            let rest = self.n - i;
            // SAFETY: whoever built this vouches for `n` elements behind each pointer.
            unsafe {
                let gate = L::load_up_to(self.gate.add(i), rest);
                let up = L::load_up_to(self.up.add(i), rest);
                let gate = match self.activation {
                    Activation::Silu => gate.map(math::silu),
                    Activation::GeluTanh => gate.map(math::gelu_tanh),
                };
                gate.mul(up).store_up_to(self.gate.add(i), rest);
            }
        }
    }
}
