//! Waiting for a device by blocking the thread.

use crate::error::Result;
use std::task::Poll;
use std::time::Duration;

/// Polls before sleeping: a few microseconds.
const SPINS: u32 = 200;
/// Between polls of a slow device: short beside a step, long beside the cost of asking.
const PAUSE: Duration = Duration::from_micros(50);

/// Asks again until the result is there: spinning first, since a decode step takes well under a
/// millisecond on a fast device, then sleeping, so that a slow one costs no core.
pub(super) fn until_ready<T>(mut poll: impl FnMut() -> Result<Poll<T>>) -> Result<T> {
    let mut spins = SPINS;
    loop {
        if let Poll::Ready(value) = poll()? {
            return Ok(value);
        }
        if spins > 0 {
            spins -= 1;
            std::hint::spin_loop();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}
