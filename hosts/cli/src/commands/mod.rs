//! One file a command.

pub mod bench;
mod bench_checkpoint;
mod branches;
pub mod chat;
pub mod checkpoint;
pub mod demo;
pub mod generate;
pub mod inspect;
pub mod ty;
pub mod verify;
