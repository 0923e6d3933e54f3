//! Chunks from the allocator.

use super::ALIGN;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;

/// Zeros.
pub(super) struct Chunk {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory like that of a `Vec`; who may read and write it is settled by `Piece`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// `None` if there is not so much.
    pub(super) fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        // SAFETY: the layout is not empty.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Chunk { at, layout })
    }

    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; nobody uses it any more.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}
