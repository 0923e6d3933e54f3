//! One file a command.

pub mod bench;
mod bench_checkpoint;
mod bench_kernels;
pub mod bench_types;
mod branches;
pub mod chat;
pub mod checkpoint;
pub mod convert;
pub mod demo;
#[cfg(feature = "gpu")]
pub mod devices;
pub mod divergence;
pub mod generate;
pub mod inspect;
#[cfg(feature = "pull")]
pub mod pull;
pub mod quantize;
pub mod synth;
pub mod ty;
pub mod verify;
