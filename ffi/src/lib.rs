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

mod adapter;
mod bytes;
mod cancel;
mod checkpoint;
mod context;
mod error;
mod log;
mod many;
mod model;
mod options;
mod output;
mod port;
mod session;
mod stats;
mod status;
mod stream;
mod types;

pub use adapter::*;
pub use bytes::*;
pub use cancel::*;
pub use checkpoint::*;
pub use context::*;
pub use error::*;
pub use log::*;
pub use many::*;
pub use model::*;
pub use options::*;
pub use output::*;
pub use port::*;
pub use session::*;
pub use stats::*;
pub use status::*;
pub use stream::*;
pub use types::*;

/// What the header says about threads, checked by the compiler: a handle's content may be reached from any.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<<lean_model as handle::Opaque>::Inner>();
    any_thread::<<lean_adapter as handle::Opaque>::Inner>();
    any_thread::<<lean_type as handle::Opaque>::Inner>();
    any_thread::<<lean_context as handle::Opaque>::Inner>();
    any_thread::<<lean_session as handle::Opaque>::Inner>();
    any_thread::<<lean_stream as handle::Opaque>::Inner>();
    any_thread::<<lean_output as handle::Opaque>::Inner>();
    any_thread::<<lean_checkpoint as handle::Opaque>::Inner>();
    any_thread::<<lean_cancel as handle::Opaque>::Inner>();
    any_thread::<<lean_port as handle::Opaque>::Inner>();
    any_thread::<<lean_bytes as handle::Opaque>::Inner>();
    any_thread::<<lean_error as handle::Opaque>::Inner>();
};
