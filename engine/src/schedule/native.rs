//! Waiting for a device by blocking the thread.

use crate::error::Result;
use std::task::Poll;
use std::time::Duration;

/// Asks again until the result is there: spinning first, since a decode step takes well under a
/// millisecond on a fast device, then sleeping, so that a slow one costs no core.
pub(super) fn until_ready<T>(mut poll: impl FnMut() -> Result<Poll<T>>) -> Result<T> {
    for round in 0u32.. {
        if let Poll::Ready(value) = poll()? {
            return Ok(value);
        }
        if round < 200 {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    unreachable!("the loop has no end")
}
