//! Typed values out of local language models, with the engine in a process of its own (`lean-bridge`): a crash there is
//! an [`Error`] here. Blocking calls and iterators, no async runtime; everything may be shared between threads.
//!
//! ```no_run
//! use lean_client::{Engine, Generate, Request, SpawnOptions, Type};
//!
//! #[derive(serde::Deserialize)]
//! struct User { id: i64, name: String }
//!
//! # fn main() -> lean_client::Result<()> {
//! let engine = Engine::spawn(SpawnOptions::default())?;
//! let model = engine.load("smollm2.gguf", Default::default())?;
//! let user = Type::expr(r#"{"id": "number.integer", "name": "string < 64"}"#);
//! let user: User = model.generate(Request::new(user).user("Invent a user."))?;
//! # Ok(()) }
//! ```
//!
//! - [`Engine`] is the process; it loads a [`Model`], which opens a [`Session`] or restores a [`Checkpoint`];
//! - [`Generate`] is what models and sessions have in common: values, streams of events, several values at once;
//! - [`Request`] is what to generate: a [`Type`], blocks of context, options, a [`CancelToken`], a deadline;
//! - a bridge that dies ends every open call with an error that has its [`Exit`]; [`Engine::respawn`] starts another.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod bridge_path;
mod cancel;
mod checkpoint;
mod connection;
mod engine;
mod error;
mod generation;
mod handle;
mod model;
mod pending;
mod process;
mod request;
mod session;
mod stream;
mod types;

pub use bridge_path::find_bridge;
pub use cancel::CancelToken;
pub use checkpoint::{Checkpoint, RestoreOptions, RestorePolicy, SaveOptions};
pub use engine::{Engine, LoadOptions, SpawnOptions};
pub use error::{Error, Exit, Result};
pub use generation::{Generate, Generated, Usage};
pub use lean_protocol::Class;
pub use model::{Adapter, Info, Model};
pub use process::Process;
pub use request::{Blocks, Chat, Request};
pub use session::{Session, SessionOptions};
pub use stream::{Candidate, Event, Partial, Stream};
pub use types::Type;
