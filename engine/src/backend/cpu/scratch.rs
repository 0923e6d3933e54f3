//! Buffers of a pass, kept from one to the next.

use crate::error::{Error, Result};

/// A pointer that threads of one step share; who writes which elements is said where it is used.
#[derive(Clone, Copy)]
pub(crate) struct Shared(*mut f32);

// SAFETY: a pointer is only a number; every dereference is `unsafe` and argues for itself.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new(p: *mut f32) -> Self {
        Shared(p)
    }

    /// The element at `i`.
    ///
    /// # Safety
    /// `i` is within the buffer.
    pub(crate) unsafe fn at(self, i: usize) -> *mut f32 {
        // SAFETY: the caller vouches for `i`.
        unsafe { self.0.add(i) }
    }

    /// `n` bytes from byte `i` on.
    ///
    /// # Safety
    /// They are within the buffer and nobody else touches them while the slice lives.
    pub(crate) unsafe fn bytes<'a>(self, i: usize, n: usize) -> &'a mut [u8] {
        // SAFETY: the caller vouches for the range and its exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>().add(i), n) }
    }

    /// `n` elements from `i` on.
    ///
    /// # Safety
    /// They are within the buffer and nobody else touches them while the slice lives.
    pub(crate) unsafe fn slice<'a>(self, i: usize, n: usize) -> &'a mut [f32] {
        // SAFETY: the caller vouches for the range and its exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(i), n) }
    }
}

/// A buffer that grows and never shrinks; its content is unspecified between passes.
#[derive(Default)]
pub(crate) struct Buffer(Vec<f32>);

impl Buffer {
    /// At least `elems` elements. Pointers from before are no longer valid.
    pub(crate) fn reserve(&mut self, elems: usize) -> Result<Shared> {
        if self.0.len() < elems {
            let more = elems - self.0.len();
            self.0.try_reserve_exact(more).map_err(|_| Error::OutOfMemory {
                wanted: elems as u64 * 4,
                what: "the activations of a pass".into(),
            })?;
            self.0.resize(elems, 0.0);
        }
        Ok(Shared(self.0.as_mut_ptr()))
    }
}

/// All buffers of a pass over `n` tokens.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The residual stream, `[n][hidden]`.
    pub(crate) hidden: Buffer,
    /// Normalised input of a step, `[n][hidden]`.
    pub(crate) normed: Buffer,
    /// What a step computes first: q, `B C x`, or the gate.
    pub(crate) first: Buffer,
    /// Keys, `u` of a convolution, or the feed-forward's `up`.
    pub(crate) second: Buffer,
    /// Values.
    pub(crate) third: Buffer,
    /// What the output projection reads.
    pub(crate) mixed: Buffer,
    /// What the output projection writes, `[n][hidden]`.
    pub(crate) projected: Buffer,
    /// A product's input in tiles, zeros behind the rows' ends.
    pub(crate) plain: Buffer,
    /// The same for formats that want it unshifted.
    pub(crate) unshifted: Buffer,
    /// Sums of inputs for formats with offsets.
    pub(crate) sums: Buffer,
    /// What low-rank updates make of a product's input, `[token][rank]` of each.
    pub(crate) low: Buffer,
    /// Unpacked weights, one part a thread.
    pub(crate) panels: Buffer,
    /// Attention scores, one part a thread.
    pub(crate) scores: Buffer,
    /// Cosines and sines, `[rope][token][cos, sin][pairs]`.
    pub(crate) angles: Buffer,
}
