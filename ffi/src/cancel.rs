//! Cancelling from anywhere.

use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::Out;
use crate::status::lean_status;
use lean_engine::{CancelToken, Result};

/// A flag that cancels the calls it is given to. Once triggered it stays so.
pub struct lean_cancel {
    _opaque: [u8; 0],
}
opaque!(lean_cancel, CancelToken, b"canc");

/// What a call looks at: the caller's flag, if any, and one of the call's own.
///
/// # Safety
/// As [`handle::get`].
pub(crate) unsafe fn child(cancel: *const lean_cancel) -> Result<CancelToken> {
    // SAFETY: passed on.
    let parent = unsafe { handle::optional(cancel) }?;
    Ok(parent.map_or_else(CancelToken::new, CancelToken::child))
}

/// A new flag, not triggered. Free it with `lean_cancel_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_cancel_new(
    cancel: *mut *mut lean_cancel,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        Out::new("cancel", cancel)?.set(handle::new::<lean_cancel>(CancelToken::new()));
        Ok(())
    })
}

/// Triggers the flag. From any thread and from a signal handler, as often as one likes; NULL does nothing.
/// Work that looks at the flag ends with `LEAN_CANCELLED` within 50 ms on common models.
#[no_mangle]
pub unsafe extern "C" fn lean_cancel_trigger(cancel: *const lean_cancel) {
    // SAFETY: the header's rules. A good handle takes no lock and allocates nothing here.
    if let Ok(token) = unsafe { handle::get(cancel) } {
        token.cancel();
    }
}

/// Whether the flag was triggered; false for NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_cancel_is_triggered(cancel: *const lean_cancel) -> bool {
    // SAFETY: the header's rules.
    unsafe { handle::get(cancel) }.is_ok_and(CancelToken::is_cancelled)
}

/// Frees the flag. NULL does nothing. Calls and streams that were given it go on, and can no longer be
/// cancelled by it.
#[no_mangle]
pub unsafe extern "C" fn lean_cancel_free(cancel: *mut lean_cancel) {
    // SAFETY: the header's rules.
    unsafe { handle::free(cancel) }
}
