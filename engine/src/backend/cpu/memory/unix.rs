//! Chunks from the kernel, aligned to huge pages.

use std::ptr::{null_mut, NonNull};

/// Bytes of a huge page on the machines that matter; elsewhere a chunk is merely well aligned.
const HUGE: usize = 2 << 20;

/// A private mapping of zeros.
pub(super) struct Chunk {
    at: NonNull<u8>,
    len: usize,
    /// The mapping that the chunk lies in.
    mapping: *mut libc::c_void,
    mapped: usize,
}

// SAFETY: memory like that of a `Vec`; who may read and write it is settled by `Piece`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// `None` if there is not so much.
    pub(super) fn new(len: usize) -> Option<Self> {
        let len = len.max(1).checked_next_multiple_of(HUGE)?;
        let mapped = len.checked_add(HUGE)?;
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let mapping = unsafe { libc::mmap(null_mut(), mapped, rights, kind, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let skipped = mapping.cast::<u8>().align_offset(HUGE).min(HUGE);
        // SAFETY: `skipped <= HUGE` bytes into a mapping of `len + HUGE`.
        let at = unsafe { mapping.cast::<u8>().add(skipped) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies in the mapping. It is advice: if it fails, pages are small.
        unsafe {
            libc::madvise(at.cast(), len, libc::MADV_HUGEPAGE);
        }
        Some(Chunk { at: NonNull::new(at)?, len, mapping, mapped })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.mapping, self.mapped) };
    }
}
