//! Arguments from C, checked as far as a pointer can be.

use crate::status::{CSTR, NONE};
use lean_engine::{Error, Result};
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

/// `length` items at `data`; NULL is fine with length 0.
///
/// # Safety
/// `data` is NULL, or readable for `length` items that nobody changes during `'a`. The items are valid for
/// every bit pattern.
pub(crate) unsafe fn slice<'a, T>(what: &str, data: *const T, length: usize) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    let bytes = length.checked_mul(std::mem::size_of::<T>()).filter(|n| isize::try_from(*n).is_ok());
    match bytes {
        None => Err(Error::invalid(what, format!("a length of {length} is more than any memory holds"))),
        Some(_) if data.is_null() => Err(Error::invalid(what, format!("is NULL with length {length}"))),
        Some(_) if !data.is_aligned() => Err(Error::invalid(what, "is not aligned for its type")),
        // SAFETY: not NULL, aligned, of a possible size, and readable as the caller says.
        Some(_) => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// A string; with the length `LEAN_CSTR` it ends at its first NUL byte.
///
/// # Safety
/// As [`slice`]; with `LEAN_CSTR`, `data` is NULL or a NUL-terminated string.
pub(crate) unsafe fn text<'a>(what: &str, data: *const c_char, length: usize) -> Result<&'a str> {
    let bytes = match length {
        CSTR if data.is_null() => return Err(Error::invalid(what, "is NULL")),
        // SAFETY: the caller says that it is NUL-terminated.
        CSTR => unsafe { CStr::from_ptr(data) }.to_bytes(),
        // SAFETY: passed on.
        _ => unsafe { slice(what, data.cast::<u8>(), length) }?,
    };
    std::str::from_utf8(bytes)
        .map_err(|e| Error::invalid(what, format!("is not UTF-8 at byte {}", e.valid_up_to())))
}

/// A path: a string without NUL bytes, which no file system takes and at which a shorter name would end.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(what: &str, data: *const c_char, length: usize) -> Result<&'a str> {
    // SAFETY: passed on.
    match unsafe { text(what, data, length) }? {
        "" => Err(Error::invalid(what, "is empty")),
        path if path.contains('\0') => Err(Error::invalid(what, "contains a NUL byte")),
        path => Ok(path),
    }
}

/// Several strings; `lengths` NULL means that all are NUL-terminated.
///
/// # Safety
/// As [`slice`] for both arrays, and as [`text`] for every string.
pub(crate) unsafe fn texts(
    what: &str,
    data: *const *const c_char,
    lengths: *const usize,
    count: usize,
) -> Result<Vec<String>> {
    // SAFETY: passed on.
    let pointers = unsafe { slice(what, data, count) }?;
    let lengths = match lengths.is_null() {
        true => None,
        // SAFETY: passed on.
        false => Some(unsafe { slice(what, lengths, count) }?),
    };
    let mut out = Vec::new();
    for (i, pointer) in pointers.iter().enumerate() {
        let length = lengths.map_or(CSTR, |all| all[i]);
        // SAFETY: passed on.
        out.push(unsafe { text(&format!("{what}[{i}]"), *pointer, length) }?.to_string());
    }
    Ok(out)
}

/// JSON.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn json<T: serde::de::DeserializeOwned>(
    what: &str,
    data: *const c_char,
    length: usize,
) -> Result<T> {
    // SAFETY: passed on.
    let text = unsafe { text(what, data, length) }?;
    serde_json::from_str(text).map_err(|e| Error::invalid(what, e))
}

/// A number that may be absent.
pub(crate) fn number(what: &str, value: u64) -> Result<Option<usize>> {
    match value {
        NONE => Ok(None),
        n => usize::try_from(n)
            .map(Some)
            .map_err(|_| Error::invalid(what, format!("{n} is more than this machine counts"))),
    }
}

/// A place that a result is written to, on success only.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// `ptr` is NULL or writable.
    pub unsafe fn new(what: &str, ptr: *mut T) -> Result<Self> {
        match NonNull::new(ptr) {
            None => Err(Error::invalid(what, "is NULL, and the result goes there")),
            Some(ptr) if !ptr.is_aligned() => Err(Error::invalid(what, "is not aligned for its type")),
            Some(ptr) => Ok(Out(ptr)),
        }
    }

    pub fn into_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    pub fn set(self, value: T) {
        // SAFETY: writable, as the caller of `new` said; the old content is plain data.
        unsafe { self.0.write(value) }
    }
}

/// A place that may be absent.
///
/// # Safety
/// As [`Out::new`].
pub(crate) unsafe fn optional_out<T>(what: &str, ptr: *mut T) -> Result<Option<Out<T>>> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on.
    unsafe { Out::new(what, ptr) }.map(Some)
}

/// Copies ids or logits into a caller's buffer as far as they fit, and says how many there are.
///
/// # Safety
/// `buffer` is NULL or writable for `capacity` items; `count` is NULL or writable.
pub(crate) unsafe fn copy_out<T: Copy>(
    what: &str,
    items: &[T],
    buffer: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    // SAFETY: passed on.
    let count = unsafe { Out::new("count", count) }?;
    if capacity > 0 && (buffer.is_null() || !buffer.is_aligned()) {
        return Err(Error::invalid(what, format!("is NULL or not aligned, with a capacity of {capacity}")));
    }
    let n = items.len().min(capacity);
    if n > 0 {
        // SAFETY: `n` items are readable in `items` and writable in `buffer`, which is the caller's own.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), buffer, n) };
    }
    count.set(items.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn lengths_pointers_and_utf8_are_checked() {
        // SAFETY: the pointers are as `text` asks, or refused before they are read.
        unsafe {
            let get = |data: *const c_char, n| text("s", data, n).map_err(|e| e.to_string());
            assert_eq!(get(c"abc".as_ptr(), 2), Ok("ab"));
            assert_eq!(get(c"abc".as_ptr(), CSTR), Ok("abc"));
            assert_eq!(get(null(), 0), Ok(""));
            assert_eq!(get(null(), 3), Err("s: is NULL with length 3".into()));
            assert_eq!(get(null(), CSTR), Err("s: is NULL".into()));
            assert_eq!(get(c"a\xff".as_ptr(), CSTR), Err("s: is not UTF-8 at byte 1".into()));
            assert!(get(c"abc".as_ptr(), usize::MAX - 1).unwrap_err().contains("more than any memory"));
            let misaligned = (c"abcdefghijkl".as_ptr() as usize | 1) as *const u32;
            assert!(slice("ids", misaligned, 1).is_err());
            assert!(slice("ids", misaligned, usize::MAX / 2).is_err());
        }
    }

    #[test]
    fn items_are_copied_as_far_as_they_fit() {
        let mut buffer = [0u32; 2];
        let mut count = 0;
        // SAFETY: the pointers are good.
        unsafe {
            copy_out("ids", &[7, 8, 9], buffer.as_mut_ptr(), 2, &mut count).unwrap();
            assert_eq!((buffer, count), ([7, 8], 3));
            copy_out("ids", &[1], std::ptr::null_mut(), 0, &mut count).unwrap();
            assert_eq!(count, 1);
            assert!(copy_out("ids", &[1], std::ptr::null_mut(), 1, &mut count).is_err());
        }
    }
}
