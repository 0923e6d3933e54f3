//! Number formats and CPU kernels of the lean engine: plain arithmetic on slices and pointers.
//!
//! A crate of its own because it is compiled once for every format and instruction set: whoever changes the engine
//! does not compile it again. Nothing here allocates, fails or knows of models.
#![deny(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

pub mod activations;
pub mod attention;
pub mod conv;
pub mod ffn;
pub mod forge;
mod formats;
pub mod kv;
mod lanes;
mod layout;
pub mod lowrank;
pub mod machine;
pub mod math;
pub mod norm;
pub mod product;
pub mod quant;
pub mod rope;
pub mod shared;
mod stored;
#[cfg(test)]
mod tests;

pub use formats::{ROWS, UNIT};
pub use lanes::Isa;
pub use layout::Layout;
