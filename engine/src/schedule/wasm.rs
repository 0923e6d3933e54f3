//! Waiting for a device where nobody may block: the host's event loop gets turns.

use crate::error::{Error, Result};
use crate::event_loop;
use std::task::Poll;
use std::time::Duration;
use web_time::Instant;

/// A device that has not answered for this long is taken for hung; no pass on real hardware comes near it.
const HANG: Duration = Duration::from_secs(120);

/// Asks again after every turn of the event loop until the result is there; the CPU backend is ready at once. `check` is
/// asked meanwhile whether to go on; a device that hangs is an error.
pub(super) fn until_ready<T>(
    mut poll: impl FnMut() -> Result<Poll<T>>,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Poll::Ready(value) = poll()? {
            return Ok(value);
        }
        check()?;
        if began.elapsed() >= HANG {
            return Err(Error::DeviceLost { reason: format!("no answer for {} s", HANG.as_secs()) });
        }
        if !event_loop::turn() {
            return Err(Error::Device { reason: "the answer of this backend cannot be awaited here".into() });
        }
    }
}
