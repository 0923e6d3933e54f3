//! The event loop of a host that lets nobody block, such as a worker of a page.
//!
//! What a device answers arrives there as an event. Whoever waits for it in the middle of a call has to let the host take
//! turns, which only the host can arrange: with JavaScript's promise integration (JSPI) the whole call is suspended
//! meanwhile.

use std::cell::Cell;
#[cfg(feature = "gpu")]
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

thread_local! {
    static HOST: Cell<Option<Host>> = const { Cell::new(None) };
}

/// How a host takes turns.
#[derive(Clone, Copy)]
pub struct Host {
    /// Returns after other events were handled: when `wake` was called, or after some milliseconds. Returns `false` at once
    /// where the host cannot suspend a call. No other call of the engine may begin meanwhile.
    pub turn: fn() -> bool,
    /// Ends the `turn` in progress soon: an event arrived that somebody may wait for.
    pub wake: fn(),
    /// Hears why a device was lost, whose models answer nothing but errors from then on.
    pub lost: fn(&str),
}

/// Says how the host takes turns. One that has no GPU, or cannot suspend a call, says nothing: then none is looked for.
pub fn set(host: Host) {
    HOST.set(Some(host));
}

/// Lets the host handle its events; `false` if it cannot.
pub(crate) fn turn() -> bool {
    HOST.get().is_some_and(|host| (host.turn)())
}

/// Whether the host has a GPU and can wait for it.
#[cfg(feature = "gpu")]
pub(crate) fn is_set() -> bool {
    HOST.get().is_some()
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
