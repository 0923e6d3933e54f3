//! Waiting for a device where nobody may block: the host's event loop gets turns. The twin of `native.rs`.

use super::device::Gpu;
use super::readback::Signal;
use crate::backend::HANG;
use crate::error::Result;
use crate::event_loop;
use std::future::Future;
use std::task::{Context, Poll};

/// Whether there may be a device to look for: outside of pages and their workers wgpu would panic.
pub fn may_look() -> Result<()> {
    event_loop::host().map(drop)
}

/// Runs a future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    let waker = event_loop::waker();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Ok(value);
        }
        (event_loop::host()?.turn)();
    }
}

/// Maps items one after the other.
pub fn each<T, R>(items: &[T], work: impl Fn(&T) -> Result<R>) -> Result<Vec<R>> {
    items.iter().map(work).collect()
}

/// Waits until everything submitted so far has run.
pub fn wait(gpu: &Gpu) -> Result<()> {
    let done = Signal::after_submitted(gpu);
    until(gpu, || done.is_set())
}

/// Waits until a callback of the device made `ready` true.
pub fn until(gpu: &Gpu, ready: impl Fn() -> Result<bool>) -> Result<()> {
    event_loop::until(HANG, || {
        gpu.check()?;
        Ok(if ready()? { Poll::Ready(()) } else { Poll::Pending })
    })
}

/// A callback of the device was called.
pub fn heard() {
    event_loop::wake();
}

/// The device was lost; nobody may be waiting for it.
pub fn lost(reason: &str) {
    event_loop::lost(reason);
    event_loop::wake();
}
