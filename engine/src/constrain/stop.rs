//! Giving up on a type that takes long to compile.
//!
//! Whoever waits says so once for the thread ([`under`]); the loops of the compilation ask ([`check`]). A parameter would
//! go through every function from the reader to the automata for the sake of the few types that take seconds.

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use std::cell::{Cell, RefCell};
use web_time::Instant;

/// Questions of which one is passed on: looking at a clock takes longer than a step.
const EVERY: u32 = 32;

/// Who waits, and until when.
#[derive(Clone)]
struct Waiting {
    cancel: CancelToken,
    deadline: Option<Instant>,
}

thread_local! {
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Does something that ends with [`Error::Cancelled`] or [`Error::Timeout`] once nobody waits for it any more.
pub(crate) fn under<T>(
    cancel: &CancelToken,
    deadline: Option<Instant>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    /// Puts back who waited before, also after a panic.
    struct Back(Option<Waiting>);
    impl Drop for Back {
        fn drop(&mut self) {
            WAITING.set(self.0.take());
        }
    }
    let _back = Back(WAITING.replace(Some(Waiting { cancel: cancel.clone(), deadline })));
    work()
}

/// An error once nobody waits any more.
pub(super) fn check() -> Result<()> {
    let asked = ASKED.get().wrapping_add(1);
    ASKED.set(asked);
    match asked % EVERY {
        0 => look(),
        _ => Ok(()),
    }
}

pub(super) fn look() -> Result<()> {
    // A clone, so that whoever is asked may compile a type himself.
    let Some(Waiting { cancel, deadline }) = WAITING.with_borrow(Option::clone) else { return Ok(()) };
    cancel.check()?;
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(Error::Timeout),
        _ => Ok(()),
    }
}

/// Whether an error says nothing about the type.
pub(super) fn is_stop(e: &Error) -> bool {
    matches!(e, Error::Cancelled | Error::Timeout)
}
