//! lean: an embeddable LLM inference engine whose results are typed values and whose state is exact.
#![deny(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

pub mod backend;
mod cancel;
pub mod chat;
pub mod constrain;
pub mod context;
mod error;
pub mod generate;
pub mod gguf;
pub mod model;
pub mod quant;
pub mod schedule;
pub mod tokenizer;

pub use cancel::CancelToken;
pub use error::{Error, Result};
