//! What an opaque pointer points to.
//!
//! A handle begins with a tag, so that a handle of another kind is an error and not a crash, and with a flag
//! that a caught panic sets. Its content is only ever reached by a shared reference; what changes is behind a
//! lock that is tried, not waited for, so that two threads on one handle get `LEAN_BUSY` and no data race.

use lean_engine::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// An opaque C type and what is behind it.
pub(crate) trait Opaque {
    /// What is behind it.
    type Inner;
    /// The first four bytes of every such handle.
    const TAG: u32;
    /// Its C name.
    const NAME: &'static str;
}

/// Declares what is behind an opaque type.
macro_rules! opaque {
    ($name:ident, $inner:ty, $tag:literal) => {
        impl $crate::handle::Opaque for $name {
            type Inner = $inner;
            const TAG: u32 = u32::from_le_bytes(*$tag);
            const NAME: &'static str = stringify!($name);
        }
    };
}
pub(crate) use opaque;

#[repr(C)]
struct Handle<T> {
    tag: u32,
    poisoned: AtomicBool,
    inner: T,
}

/// A new handle, owned by the caller until it is freed.
pub(crate) fn new<O: Opaque>(inner: O::Inner) -> *mut O {
    Box::into_raw(Box::new(Handle { tag: O::TAG, poisoned: AtomicBool::new(false), inner })).cast()
}

/// # Safety
/// `ptr` is NULL, or a live handle of this library (of any kind), for `'a`.
unsafe fn typed<'a, O: Opaque>(ptr: *const O) -> Result<&'a Handle<O::Inner>> {
    let invalid = |reason: String| Err(Error::invalid(O::NAME, reason));
    if ptr.is_null() {
        return invalid("is NULL".into());
    }
    let handle = ptr.cast::<Handle<O::Inner>>();
    if !handle.is_aligned() {
        return invalid("is not a handle of this library".into());
    }
    // SAFETY: every live handle begins with its tag.
    let tag = unsafe { *handle.cast::<u32>() };
    if tag != O::TAG {
        return invalid(format!("is not a {}", O::NAME));
    }
    // SAFETY: the tag says that it was made by `new::<O>`, and the caller that it is live.
    Ok(unsafe { &*handle })
}

/// The content of a handle.
///
/// # Safety
/// `ptr` is NULL, or a live handle of this library (of any kind), for `'a`.
pub(crate) unsafe fn get<'a, O: Opaque>(ptr: *const O) -> Result<&'a O::Inner> {
    // SAFETY: passed on.
    let handle = unsafe { typed(ptr) }?;
    if handle.poisoned.load(Ordering::Relaxed) {
        return Err(Error::Panic(format!(
            "this {} was in use when an earlier call panicked; free it",
            O::NAME
        )));
    }
    Ok(&handle.inner)
}

/// The same for what must work after a panic as well: ending what others wait for.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn even_poisoned<'a, O: Opaque>(ptr: *const O) -> Result<&'a O::Inner> {
    // SAFETY: passed on.
    unsafe { typed(ptr) }.map(|handle| &handle.inner)
}

/// The same for an argument that may be NULL.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn optional<'a, O: Opaque>(ptr: *const O) -> Result<Option<&'a O::Inner>> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on.
    unsafe { get(ptr) }.map(Some)
}

/// Makes every further call on a handle fail.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn poison<O: Opaque>(ptr: *const O) {
    // SAFETY: passed on.
    if let Ok(handle) = unsafe { typed(ptr) } {
        handle.poisoned.store(true, Ordering::Relaxed);
    }
}

/// Frees a handle; NULL and a handle of another kind are left alone.
///
/// # Safety
/// As [`get`], and nobody uses the handle any more.
pub(crate) unsafe fn free<O: Opaque>(ptr: *mut O) {
    // SAFETY: passed on.
    if unsafe { typed(ptr) }.is_ok() {
        // SAFETY: made by `Box::into_raw` in `new::<O>`, as the tag says, and not used any more.
        let handle = unsafe { Box::from_raw(ptr.cast::<Handle<O::Inner>>()) };
        crate::guard::quietly((), || drop(handle));
    }
}

/// A lock that does not wait.
pub(crate) fn lock<'a, T>(mutex: &'a Mutex<T>, what: &str) -> Result<MutexGuard<'a, T>> {
    mutex.try_lock().map_err(|e| match e {
        TryLockError::WouldBlock => {
            Error::Busy { what: format!("the {what} is in use by a call on another thread") }
        }
        TryLockError::Poisoned(_) => {
            Error::Panic(format!("the {what} was in use when an earlier call panicked; free it"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct apple;
    struct pear;
    opaque!(apple, String, b"appl");
    opaque!(pear, u64, b"pear");

    #[test]
    fn a_handle_of_another_kind_is_refused_and_not_freed() {
        let handle = new::<apple>("a".into());
        // SAFETY: the handle is live throughout.
        unsafe {
            assert_eq!(get(handle).unwrap(), "a");
            let wrong = get(handle.cast::<pear>()).unwrap_err();
            assert_eq!(wrong, Error::invalid("pear", "is not a pear"));
            free(handle.cast::<pear>());
            assert_eq!(get(handle).unwrap(), "a");
            free(handle);
            assert_eq!(get(std::ptr::null::<apple>()).unwrap_err(), Error::invalid("apple", "is NULL"));
            free(std::ptr::null_mut::<apple>());
        }
    }
}
