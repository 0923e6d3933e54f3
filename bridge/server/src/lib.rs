//! Turns protocol requests into engine calls. It knows no transport: frames go in through
//! [`Connection::submit`] and come out of [`Connection::next`], whether a pipe or a function call carries them.
//!
//! - [`Connection`]: handshake, open requests, dispatch; it never runs the engine itself;
//! - `turn`: requests on threads, or one after the other where there are none;
//! - [`port`]: the little that a request needs of an engine;
//! - [`echo`]: a model without weights behind that port, so that hosts are tested without any;
//! - [`engine`]: the real one;
//! - [`bytes`]: a connection's two streams of bytes; [`pipe`]: a bridge in this process that speaks them.
//!
//! **Invariants.** The thread that submits frames never computes, loads or waits for credit. Each accepted
//! request gets exactly one END frame, also when its worker panics. Nothing queues without bound: events cost
//! credit, and frames not yet taken are limited in bytes.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
// Guards are handed to `turn::Signal::wait`, which lets go of them; that of a session is held by its one user.
#![allow(clippy::await_holding_lock)]

#[cfg(not(target_arch = "wasm32"))]
pub mod bytes;
mod connection;
pub mod echo;
pub mod engine;
mod failure;
mod files;
mod groups;
mod handles;
mod ops;
mod outbox;
#[cfg(not(target_arch = "wasm32"))]
pub mod pipe;
pub mod port;
mod request;
#[cfg(target_arch = "wasm32")]
pub mod turn;
#[cfg(not(target_arch = "wasm32"))]
mod turn;

pub use connection::{Connection, Ended};
