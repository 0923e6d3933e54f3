//! Requests on threads of their own: waits block.

use std::future::Future;
use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Whether a wait in the middle of a call of the engine may block.
pub(crate) const BLOCKS: bool = true;

/// Wakes those who wait for a change of what a mutex guards.
#[derive(Default)]
pub(crate) struct Signal(Condvar);

impl Signal {
    /// Waits for the next [`Signal::notify_all`], or for no reason.
    pub async fn wait<'a, T>(&self, _mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.block(guard)
    }

    /// The same in the middle of a call.
    pub fn block<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(|e| e.into_inner())
    }

    /// The same, for a limited time.
    pub async fn wait_timeout<'a, T>(
        &self,
        _mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.block_for(guard, timeout)
    }

    /// The same in the middle of a call.
    pub fn block_for<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(|e| e.into_inner()).0
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Runs a request on a thread.
pub(crate) fn spawn(run: impl AsyncFnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("lean-request".into());
    thread.spawn(move || block_on(run()))
}

/// Lets other requests have their turn: they have it anyway.
pub(crate) async fn pause() {}

/// Lets time pass.
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        // No wait here is pending; one of somebody else's would be asked again and again.
        std::thread::yield_now();
    }
}
