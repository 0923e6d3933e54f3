//! The engine in a worker of a page: the server of the bridge, whose frames are handed over by calls.
//!
//! What a worker must do itself comes in as one object, [`worker::Worker`]: it takes frames, reads models, and
//! says what was cancelled while a request computes and nobody else has a turn.
//!
//! A panic ends the instance with a trap, after [`worker::Worker::panicked`] was told why: nothing in it can be used
//! any more, and whoever made it makes another.
#![deny(missing_docs)]
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]

mod ask;
mod digest;
#[cfg(all(target_arch = "wasm32", target_feature = "atomics"))]
mod helpers;
mod host;
#[cfg(target_arch = "wasm32")]
mod server;
mod source;
mod worker;

pub use digest::Digest;
#[cfg(all(target_arch = "wasm32", target_feature = "atomics"))]
pub use helpers::{help, helpers};
#[cfg(target_arch = "wasm32")]
pub use server::Server;
