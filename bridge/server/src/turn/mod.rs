//! How requests take turns: on threads of their own, or one after the other where there are none.
//!
//! What a request waits for it awaits. Natively such a wait blocks the request's thread and its future is never
//! pending. Without threads the future is pending, and [`run`] comes back to it once something has changed.

use std::any::Any;
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;

#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(target_arch = "wasm32")]
mod wasm;

#[cfg(not(target_arch = "wasm32"))]
use native as here;
#[cfg(target_arch = "wasm32")]
use wasm as here;

#[cfg(target_arch = "wasm32")]
pub use here::run;
pub(crate) use here::{pause, sleep, spawn, Signal, BLOCKS};

/// Runs a future to its end or to its panic.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = std::pin::pin!(future);
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::as_mut(&mut future).poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    })
    .await
}
