//! A pointer for the threads of a step.

/// A pointer that threads of one step share; who writes which elements is said where it is used.
#[derive(Clone, Copy)]
pub struct Shared(*mut f32);

// SAFETY: a pointer is only a number; every dereference is `unsafe` and argues for itself.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The buffer that begins at `p`.
    pub fn new(p: *mut f32) -> Self {
        Shared(p)
    }

    /// The element at `i`.
    ///
    /// # Safety
    /// `i` is within the buffer.
    pub unsafe fn at(self, i: usize) -> *mut f32 {
        // SAFETY: the caller vouches for `i`.
        unsafe { self.0.add(i) }
    }

    /// `n` bytes from byte `i` on.
    ///
    /// # Safety
    /// They are within the buffer and nobody else touches them while the slice lives.
    pub unsafe fn bytes<'a>(self, i: usize, n: usize) -> &'a mut [u8] {
        // SAFETY: the caller vouches for the range and its exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>().add(i), n) }
    }

    /// `n` elements from `i` on.
    ///
    /// # Safety
    /// They are within the buffer and nobody else touches them while the slice lives.
    pub unsafe fn slice<'a>(self, i: usize, n: usize) -> &'a mut [f32] {
        // SAFETY: the caller vouches for the range and its exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(i), n) }
    }
}
