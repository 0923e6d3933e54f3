//! What the web cannot do: block. The twin of `native.rs`; the asynchronous load and export that the web needs
//! are not there yet, so these say so instead of waiting.

use super::device::Gpu;
use crate::error::{Error, Result};
use std::future::Future;
use std::task::{Context, Poll, Waker};

fn refusal() -> Error {
    Error::Device {
        reason: "this step waits for the GPU, which a web page cannot do; use the CPU backend".into(),
    }
}

/// The value of a future that is ready at once.
pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(refusal()),
    }
}

/// Runs `work`; what the device refuses arrives later, at its handler for uncaptured errors.
pub fn scoped<T>(_gpu: &wgpu::Device, _wanted: u64, _what: &str, work: impl FnOnce() -> T) -> Result<T> {
    Ok(work())
}

/// Maps items one after the other.
pub fn each<T, R>(items: &[T], work: impl Fn(&T) -> Result<R>) -> Result<Vec<R>> {
    items.iter().map(work).collect()
}

/// Refused.
pub fn wait(_gpu: &Gpu) -> Result<()> {
    Err(refusal())
}
