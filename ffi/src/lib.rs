//! The C ABI of lean. `include/lean.h` is generated from this crate; its first page has the rules that every
//! function follows, and `README.md` beside this crate shows them at work.
//!
//! Every function here is one step: check the arguments, call the facade, hand the result out. The files
//! below `status` are in the order of the header.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
// The names are C's.
#![allow(non_camel_case_types)]
// Every function shares the one safety contract of the header's first page.
#![allow(clippy::missing_safety_doc)]

#[macro_use]
mod guard;
mod handle;
mod input;
mod text;

mod bytes;
mod cancel;
mod checkpoint;
mod context;
mod error;
mod log;
mod model;
mod options;
mod output;
mod session;
mod status;
mod stream;
mod types;

pub use bytes::*;
pub use cancel::*;
pub use checkpoint::*;
pub use context::*;
pub use error::*;
pub use log::*;
pub use model::*;
pub use options::*;
pub use output::*;
pub use session::*;
pub use status::*;
pub use stream::*;
pub use types::*;
