//! Waiting for a device, on targets where a thread may block. The twin of `wasm.rs`.

use super::device::Gpu;
use crate::backend::HANG;
use crate::error::{Error, Result};
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// Threads that compile kernels.
const MOST_THREADS: usize = 8;

/// Runs a future of wgpu to its end. On native targets they are ready at once or need no waker.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Ok(value);
        }
        std::thread::yield_now();
    }
}

/// Maps items on as many threads as there are cores: pipelines take a driver tens of milliseconds each.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, MOST_THREADS);
    let size = items.len().div_ceil(threads).max(1);
    let parts: Vec<Result<Vec<R>>> = std::thread::scope(|scope| {
        let work = &work;
        let run = |part| scope.spawn(move || -> Result<Vec<R>> { <[T]>::iter(part).map(work).collect() });
        let handles: Vec<_> = items.chunks(size).map(run).collect();
        let panicked = |_| Err(Error::Internal("a thread that compiled kernels panicked".into()));
        handles.into_iter().map(|h| h.join().unwrap_or_else(panicked)).collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

/// Waits until everything submitted so far has run and its callbacks have been called.
pub fn wait(gpu: &Gpu) -> Result<()> {
    let done = gpu.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(HANG) });
    gpu.check()?;
    match done {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::DeviceLost { reason: format!("no answer for {} s: {e}", HANG.as_secs()) }),
    }
}

/// Waits until a callback of the device made `ready` true, which the last submission brings about.
pub fn until(gpu: &Gpu, ready: impl Fn() -> Result<bool>) -> Result<()> {
    wait(gpu)?;
    match ready()? {
        true => Ok(()),
        false => Err(Error::Internal("a mapped buffer is not there after waiting for the device".into())),
    }
}

/// A callback of the device was called: whoever waits polls for it.
pub fn heard() {}

/// The device was lost: the next call says so.
pub fn lost(_reason: &str) {}

/// Whether there may be a device to look for.
pub fn may_look() -> Result<()> {
    Ok(())
}
