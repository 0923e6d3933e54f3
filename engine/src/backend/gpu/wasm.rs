//! Waiting for a device where nobody may block: the host's event loop gets turns. The twin of `native.rs`.

use super::device::Gpu;
use super::readback::Signal;
use crate::error::{Error, Result};
use crate::event_loop;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;
use web_time::Instant;

/// A device that has not answered for this long is taken for hung; no pass on real hardware comes near it.
const HANG: Duration = Duration::from_secs(120);

fn turn() -> Result<()> {
    match event_loop::turn() {
        true => Ok(()),
        false => Err(no_gpu()),
    }
}

fn no_gpu() -> Error {
    let reason =
        "there is no WebGPU here, or its answers cannot be awaited: the browser would have to suspend \
                  WebAssembly (JavaScript promise integration); use the CPU";
    Error::Device { reason: reason.into() }
}

/// Whether there may be a device to look for: outside of pages and their workers wgpu would panic.
pub fn may_look() -> Result<()> {
    match event_loop::is_set() {
        true => Ok(()),
        false => Err(no_gpu()),
    }
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
        turn()?;
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
    let began = Instant::now();
    loop {
        gpu.check()?;
        if ready()? {
            return Ok(());
        }
        if began.elapsed() >= HANG {
            return Err(Error::DeviceLost { reason: format!("no answer for {} s", HANG.as_secs()) });
        }
        turn()?;
    }
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
