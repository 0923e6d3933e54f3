//! Waiting for a device where nobody may block: the host's event loop gets turns.

use crate::backend::HANG;
use crate::error::Result;
use crate::event_loop;
use std::task::Poll;

/// Asks again after every turn of the event loop until the result is there; the CPU backend is ready at once. `check` is
/// asked meanwhile whether to go on; a device that hangs is an error.
pub(super) fn until_ready<T>(
    mut poll: impl FnMut() -> Result<Poll<T>>,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    event_loop::until(HANG, || {
        let polled = poll()?;
        if polled.is_pending() {
            check()?;
        }
        Ok(polled)
    })
}
