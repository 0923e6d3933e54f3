//! Cancelling a call from another thread.

use crate::pending::Incoming;
use crate::process::lock;
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

/// Cancels the calls that were given it, from any thread: they end within a step or a layer of a prefill, with
/// [`crate::Error::CANCELLED`] or with their value if that was on its way, and a session is as it was.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    cancelled: bool,
    last: u64,
    /// Those that wait for a frame and want to be woken.
    waiting: Vec<(u64, Sender<Incoming>)>,
}

impl CancelToken {
    /// One that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for ever.
    pub fn cancel(&self) {
        let mut inner = lock(&self.0);
        inner.cancelled = true;
        for (_, waiting) in inner.waiting.drain(..) {
            let _ = waiting.send(Incoming::Poke);
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0).cancelled
    }

    /// Wakes the receiver when it is cancelled, at once if it has been; the number is for [`CancelToken::leave`].
    pub(crate) fn join(&self, waker: Sender<Incoming>) -> u64 {
        let mut inner = lock(&self.0);
        inner.last += 1;
        if inner.cancelled {
            let _ = waker.send(Incoming::Poke);
        } else {
            let last = inner.last;
            inner.waiting.push((last, waker));
        }
        inner.last
    }

    pub(crate) fn leave(&self, number: u64) {
        lock(&self.0).waiting.retain(|(n, _)| *n != number);
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelToken({})", if self.is_cancelled() { "cancelled" } else { "not cancelled" })
    }
}
