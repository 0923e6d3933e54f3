//! The event loop of a host that lets nobody block, such as a worker of a page.
//!
//! What a device answers arrives there as an event. Whoever waits for it in the middle of a call has to let the host take
//! turns, which only the host can arrange: with JavaScript's promise integration (JSPI) the whole call is suspended
//! meanwhile.

use crate::error::{Error, Result};
use std::cell::Cell;
use std::task::Poll;
use std::time::Duration;
#[cfg(feature = "gpu")]
use std::{
    sync::Arc,
    task::{Wake, Waker},
};
use web_time::Instant;

thread_local! {
    static HOST: Cell<Option<Host>> = const { Cell::new(None) };
}

/// How a host takes turns.
#[derive(Clone, Copy)]
pub struct Host {
    /// Returns after other events were handled: when `wake` was called, or after some milliseconds. No other call of the
    /// engine may begin meanwhile.
    pub turn: fn(),
    /// Ends the `turn` in progress soon: an event arrived that somebody may wait for.
    pub wake: fn(),
    /// Hears why a device was lost, whose models answer nothing but errors from then on.
    pub lost: fn(&str),
}

/// Says how the host takes turns. One that has no GPU, or cannot suspend a call, says nothing: then none is looked for.
pub fn set(host: Host) {
    HOST.set(Some(host));
}

/// The host, if it has a GPU and can wait for it.
///
/// # Errors
/// [`Error::Device`] otherwise.
pub(crate) fn host() -> Result<Host> {
    HOST.get().ok_or_else(|| Error::Device {
        reason:
            "there is no WebGPU here, or its answers cannot be awaited: the browser would have to suspend \
                 WebAssembly (JavaScript promise integration); use the CPU"
                .into(),
    })
}

/// Asks again after every turn of the host until the answer is there.
///
/// # Errors
/// Those of `ready` and of [`host`]; [`Error::DeviceLost`] after `patience`.
pub(crate) fn until<T>(patience: Duration, mut ready: impl FnMut() -> Result<Poll<T>>) -> Result<T> {
    // Most answers are there already.
    if let Poll::Ready(value) = ready()? {
        return Ok(value);
    }
    let began = Instant::now();
    loop {
        if began.elapsed() >= patience {
            return Err(Error::DeviceLost { reason: format!("no answer for {} s", patience.as_secs()) });
        }
        (host()?.turn)();
        if let Poll::Ready(value) = ready()? {
            return Ok(value);
        }
    }
}

/// What `turn` waits for may have happened.
#[cfg(feature = "gpu")]
pub(crate) fn wake() {
    if let Some(host) = HOST.get() {
        (host.wake)();
    }
}

/// Wakes whoever takes a turn.
#[cfg(feature = "gpu")]
pub(crate) fn waker() -> Waker {
    struct Woken;
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            wake();
        }
    }
    Arc::new(Woken).into()
}

/// Tells the host that a device was lost.
#[cfg(feature = "gpu")]
pub(crate) fn lost(reason: &str) {
    if let Some(host) = HOST.get() {
        (host.lost)(reason);
    }
}
