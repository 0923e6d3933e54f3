//! The threads that run a pass.

#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(target_arch = "wasm32")]
mod wasm;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::{default_threads, Pool};
#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::{default_threads, Pool};

/// Work that is cut into items: called once for every item, with the number of the thread that runs it
/// (the caller's is 0), in any order.
pub(crate) type Work<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Limit of threads, far above what helps a memory-bound pass; it keeps a typo from exhausting the system.
pub(crate) const MAX_THREADS: usize = 256;
