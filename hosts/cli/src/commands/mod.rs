//! One file a command.

pub mod bench;
pub mod bench_types;
pub mod chat;
pub mod demo;
pub mod generate;
pub mod inspect;
pub mod ty;
pub mod verify;
