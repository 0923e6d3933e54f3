//! Requests one after the other on the only thread there is, each until it has to wait.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use web_time::Instant;

/// Whether a wait in the middle of a call of the engine may block: nobody would end it.
pub(crate) const BLOCKS: bool = false;

thread_local! {
    static TASKS: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(Vec::new()) };
    /// Something changed that a task may wait for.
    static CHANGED: Cell<bool> = const { Cell::new(false) };
    /// A task has more to do, and made a pause.
    static MORE: Cell<bool> = const { Cell::new(false) };
    /// Counts the calls of [`run`].
    static TURN: Cell<u64> = const { Cell::new(0) };
}

/// Lets every request run as far as it can, or until its next pause. Says whether there is more to do: who runs the
/// event loop calls again then, after it has handed over what came in meanwhile.
pub fn run() -> bool {
    TURN.set(TURN.get() + 1);
    MORE.set(false);
    loop {
        CHANGED.set(false);
        let mut tasks = TASKS.take();
        tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Those that began meanwhile.
        tasks.append(&mut TASKS.take());
        TASKS.set(tasks);
        if !CHANGED.get() {
            return MORE.get();
        }
    }
}

/// Wakes those who wait for a change of what a mutex guards.
#[derive(Default)]
pub(crate) struct Signal;

impl Signal {
    /// Waits for a change of anything.
    pub async fn wait<'a, T>(&self, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        drop(guard);
        let mut waited = false;
        poll_fn(|_| match std::mem::replace(&mut waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        mutex.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Nobody would end such a wait; callers ask [`BLOCKS`] first.
    pub fn block<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        guard
    }

    /// Every request is asked again soon enough.
    pub async fn wait_timeout<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        _timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.wait(mutex, guard).await
    }

    pub fn notify_all(&self) {
        CHANGED.set(true);
    }
}

/// Runs a request when its turn comes.
pub(crate) fn spawn(run: impl AsyncFnOnce() + 'static) -> std::io::Result<()> {
    TASKS.with_borrow_mut(|tasks| tasks.push(Box::pin(async move { run().await })));
    CHANGED.set(true);
    Ok(())
}

/// Lets other requests have their turn, and what comes in be handed over.
pub(crate) async fn pause() {
    let turn = TURN.get();
    poll_fn(|_| match TURN.get() == turn {
        false => Poll::Ready(()),
        true => {
            MORE.set(true);
            Poll::Pending
        }
    })
    .await;
}

/// Lets time pass; there is no other way to do it here.
pub(crate) fn sleep(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
