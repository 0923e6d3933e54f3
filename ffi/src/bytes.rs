//! Results of any length.

use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::Out;
use crate::status::lean_status;

/// Bytes or text that a call returned. Immutable.
pub struct lean_bytes {
    _opaque: [u8; 0],
}
opaque!(lean_bytes, Bytes, b"byte");

pub(crate) struct Bytes {
    data: Vec<u8>,
    length: usize,
}

/// Text, with a NUL byte behind it.
pub(crate) fn text(text: String) -> *mut lean_bytes {
    let mut data = text.into_bytes();
    let length = data.len();
    data.push(0);
    handle::new(Bytes { data, length })
}

/// Raw bytes.
pub(crate) fn raw(data: Vec<u8>) -> *mut lean_bytes {
    handle::new(Bytes { length: data.len(), data })
}

/// Where the bytes are, and how many. Borrowed until `bytes` is freed. Text is followed by a NUL byte that
/// the length does not count; a checkpoint is not.
#[no_mangle]
pub unsafe extern "C" fn lean_bytes_data(
    bytes: *const lean_bytes,
    data: *mut *const u8,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let bytes = handle::get(bytes)?;
        let (data, length) = (Out::new("data", data)?, Out::new("length", length)?);
        data.set(bytes.data.as_ptr());
        length.set(bytes.length);
        Ok(())
    })
}

/// Frees the bytes. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_bytes_free(bytes: *mut lean_bytes) {
    // SAFETY: the header's rules.
    unsafe { handle::free(bytes) }
}
