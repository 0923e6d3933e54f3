//! The gate of the feed-forward.

use crate::lanes::{Isa, Kernel, Lanes, LANES};
use crate::math;

/// Activation of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
}

/// `gate = act(gate) * up` for `n` elements.
pub struct Gate {
    /// `[n]`, writable by this call alone.
    pub gate: *mut f32,
    /// `[n]`, readable.
    pub up: *const f32,
    /// Elements.
    pub n: usize,
    /// What the gate goes through.
    pub activation: Activation,
}

impl Gate {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
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
