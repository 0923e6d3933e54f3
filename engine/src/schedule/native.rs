//! Waiting for a device by blocking the thread.

use crate::backend::HANG;
use crate::error::{Error, Result};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long to ask without sleeping: a decode step of a fast device.
const SPIN: Duration = Duration::from_millis(3);
/// Between polls of a slow device: short beside a step, long beside the cost of asking.
const PAUSE: Duration = Duration::from_micros(50);

/// Asks again until the result is there: spinning first, since a decode step takes a millisecond or two on a fast
/// device and a sleep lasts longer than it is asked to, then sleeping, so that a slow one costs no core. `check` is
/// asked meanwhile whether to go on; a device that hangs is an error.
pub(super) fn until_ready<T>(
    mut poll: impl FnMut() -> Result<Poll<T>>,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    until_ready_within(HANG, &mut poll, check)
}

fn until_ready_within<T>(
    patience: Duration,
    mut poll: impl FnMut() -> Result<Poll<T>>,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    // Most backends have the result already.
    if let Poll::Ready(value) = poll()? {
        return Ok(value);
    }
    let began = Instant::now();
    loop {
        if let Poll::Ready(value) = poll()? {
            return Ok(value);
        }
        check()?;
        if began.elapsed() >= patience {
            return Err(Error::DeviceLost { reason: format!("no answer for {} s", patience.as_secs()) });
        }
        match began.elapsed() < SPIN {
            true => std::hint::spin_loop(),
            false => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hung_device_and_an_impatient_caller_end_the_wait() {
        let never = || Ok(Poll::<()>::Pending);
        let hung = until_ready_within(Duration::ZERO, never, || Ok(()));
        assert!(matches!(hung, Err(Error::DeviceLost { .. })), "{hung:?}");
        assert_eq!(until_ready(never, || Err(Error::Timeout)), Err(Error::Timeout));
        assert_eq!(until_ready(|| Ok(Poll::Ready(7)), || Err(Error::Cancelled)), Ok(7));
    }
}
