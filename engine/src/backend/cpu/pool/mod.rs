//! The threads that run a pass.

#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
mod alone;
#[cfg(any(not(target_arch = "wasm32"), target_feature = "atomics"))]
mod workers;

#[cfg(not(target_arch = "wasm32"))]
#[path = "threads_native.rs"]
mod threads;
#[cfg(all(target_arch = "wasm32", target_feature = "atomics"))]
#[path = "threads_wasm.rs"]
pub(crate) mod threads;

#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
pub(crate) use alone::{default_threads, Pool};
#[cfg(any(not(target_arch = "wasm32"), target_feature = "atomics"))]
pub(crate) use {threads::default_threads, workers::Pool};

/// Work that is cut into items: called once for every item, with the number of the thread that runs it
/// (the caller's is 0), in any order.
pub(crate) type Work<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Limit of threads, far above what helps a memory-bound pass; it keeps a typo from exhausting the system.
pub(crate) const MAX_THREADS: usize = 256;
