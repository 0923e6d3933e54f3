//! The boundary: no panic crosses it, and nothing is printed.

use crate::error::lean_error;
use crate::status::{lean_status, LEAN_OK};
use lean_engine::{Error, Result};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Wraps the body of an exported function: `guarded!(error, [handles], { ...; Ok(()) })`. The body is unsafe
/// code under the contract of the header's first page; a panic in it poisons the handles.
macro_rules! guarded {
    ($error:expr, [$($handle:expr),*], $body:block) => {
        $crate::guard::call(
            $error,
            || {
                $(
                    // SAFETY: the caller passes NULL or a live handle, as the header demands.
                    unsafe { $crate::handle::poison($handle) };
                )*
            },
            // SAFETY: the caller passes pointers as the header demands: NULL or live handles, readable inputs
            // of the given lengths, writable outputs. Everything else about them is checked.
            #[allow(unused_unsafe)]
            || unsafe { $body },
        )
    };
}

/// What a body may end with.
pub(crate) trait Status {
    fn status(self) -> lean_status;
}

impl Status for () {
    fn status(self) -> lean_status {
        LEAN_OK
    }
}

impl Status for lean_status {
    fn status(self) -> lean_status {
        self
    }
}

/// Runs a body, turns an error or a panic into a status and an error object.
pub(crate) fn call<S: Status>(
    error: *mut *mut lean_error,
    poison: impl FnOnce(),
    body: impl FnOnce() -> Result<S>,
) -> lean_status {
    let failure = match catch(body) {
        Ok(Ok(status)) => return status.status(),
        Ok(Err(failure)) => failure,
        Err(message) => {
            poison();
            crate::log::error(&format!("panic: {message}"));
            Error::Panic(message)
        }
    };
    let status = failure.code() as lean_status;
    if !error.is_null() && error.is_aligned() {
        let handle = catch(|| crate::error::new(failure)).unwrap_or(std::ptr::null_mut());
        // SAFETY: the caller passes NULL or a place for a pointer.
        unsafe { error.write(handle) };
    }
    status
}

/// Runs something that has no way to report an error.
pub(crate) fn quietly<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch(body).unwrap_or_else(|message| {
        crate::log::error(&format!("panic: {message}"));
        otherwise
    })
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The body's result, or the message of its panic.
fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    silence();
    DEPTH.set(DEPTH.get() + 1);
    // A panic leaves only the handles of the call in doubt, and those are poisoned.
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|payload| {
        let message = message(&*payload);
        // Dropping a payload may run anything, even panic again.
        std::mem::forget(payload);
        match PLACE.take() {
            Some(place) => format!("{message} (at {place})"),
            None => message,
        }
    })
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text.to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_string()
    }
}

/// Keeps the default hook from printing panics that are caught here, and those of the engine's own threads,
/// which reach a caller as an error. In the shared library there are no others; a Rust program that links
/// this crate keeps its own hook for its own threads.
fn silence() {
    static ONCE: Once = Once::new();
    // Replacing the hook while panicking would abort.
    if ONCE.is_completed() || std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if DEPTH.try_with(Cell::get).unwrap_or(1) > 0 {
                let place = info.location().map(ToString::to_string);
                let _ = PLACE.try_with(|p| p.replace(place));
                return;
            }
            let ours = std::thread::current().name().is_none_or(|name| name.starts_with("lean"));
            match ours {
                true => crate::log::error(&format!("a worker thread panicked: {info}")),
                false => previous(info),
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::{lean_cancel, lean_cancel_free, lean_cancel_new};
    use crate::status::LEAN_PANIC;
    use std::ptr::null_mut;

    #[test]
    fn a_panic_becomes_a_status_a_message_and_a_poisoned_handle() {
        let mut cancel: *mut lean_cancel = null_mut();
        let mut error: *mut lean_error = null_mut();
        // SAFETY: the pointers are good.
        unsafe {
            assert_eq!(lean_cancel_new(&mut cancel, null_mut()), LEAN_OK);
            #[allow(unused_unsafe)]
            let status = guarded!(&mut error, [cancel], {
                if crate::handle::get(cancel).is_ok() {
                    panic!("seven is {}", 7);
                }
                Ok(())
            });
            assert_eq!(status, LEAN_PANIC);
            let text = crate::handle::get(error).unwrap().error.to_string();
            assert!(text.contains("seven is 7 (at ") && text.contains("guard.rs:"), "{text}");
            assert!(matches!(crate::handle::get(cancel), Err(Error::Panic(_))));
            crate::error::lean_error_free(error);
            lean_cancel_free(cancel);
        }
    }

    #[test]
    fn errors_are_written_only_on_failure_and_may_be_ignored() {
        let mut error: *mut lean_error = null_mut();
        assert_eq!(call(&mut error, || (), || Ok(())), LEAN_OK);
        assert!(error.is_null());
        assert_eq!(call(null_mut(), || (), || Err::<(), _>(Error::Cancelled)), 500);
    }
}
