//! What the library has to say besides results. It never prints.

use crate::error::lean_error;
use crate::status::lean_status;
use crate::text::Text;
use lean_engine::Error;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// A bug that was caught.
pub const LEAN_LOG_ERROR: i32 = 1;
/// Something that the caller probably did not mean, such as an unknown keyword in a schema.
pub const LEAN_LOG_WARNING: i32 = 2;
/// What was loaded and where it runs.
pub const LEAN_LOG_INFO: i32 = 3;

/// Receives a message: user data, level, text (NUL-terminated, borrowed for the call), length. Called from
/// any thread that is inside the library, or from its own. It must not throw, unwind or longjmp.
pub type lean_log_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, level: i32, message: *const c_char, length: usize)>;
/// Frees user data, once nothing uses it any more.
pub type lean_destroy_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

struct Sink {
    log: unsafe extern "C" fn(*mut c_void, i32, *const c_char, usize),
    user: *mut c_void,
    destroy: lean_destroy_fn,
    level: i32,
}

// SAFETY: the header demands a callback, user data and destructor that any thread may use.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: this is the last use of the user data.
            unsafe { destroy(self.user) };
        }
    }
}

static SINK: Mutex<Option<Arc<Sink>>> = Mutex::new(None);

fn write(level: i32, message: &str) {
    // Not called under the lock: the callback may itself set another one.
    let sink = SINK.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink.filter(|sink| level <= sink.level) {
        let text = Text::new(message);
        // SAFETY: the caller of `lean_log_set` vouched for the callback; the text lives through the call.
        unsafe { (sink.log)(sink.user, level, text.ptr(), text.len()) };
    }
}

pub(crate) fn error(message: &str) {
    write(LEAN_LOG_ERROR, message);
}

pub(crate) fn warning(message: &str) {
    write(LEAN_LOG_WARNING, message);
}

pub(crate) fn info(message: &str) {
    write(LEAN_LOG_INFO, message);
}

/// Sets the one receiver of messages of the process, up to a level; a NULL callback removes it.
/// The library takes `user` and, when the receiver is replaced or removed and no call into it is in progress,
/// passes it to `destroy`, which may be NULL. After an error `user` remains the caller's.
#[no_mangle]
pub unsafe extern "C" fn lean_log_set(
    log: lean_log_fn,
    level: i32,
    user: *mut c_void,
    destroy: lean_destroy_fn,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        if !(LEAN_LOG_ERROR..=LEAN_LOG_INFO).contains(&level) {
            return Err(Error::invalid("level", format!("{level} is not one of LEAN_LOG_*")));
        }
        let sink = log.map(|log| Arc::new(Sink { log, user, destroy, level }));
        let old = std::mem::replace(&mut *SINK.lock().unwrap_or_else(PoisonError::into_inner), sink);
        // The destructor may call back into the library, so it runs outside the lock.
        drop(old);
        Ok(())
    })
}
