//! A sequence: token history and state; blocks and checkpoints.

mod block;
mod checkpoint;
#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod disk;
#[cfg(target_arch = "wasm32")]
#[path = "wasm.rs"]
mod disk;
mod file;
mod sequence;

pub use block::Block;
pub(crate) use block::BlockEncoder;
pub(crate) use checkpoint::Identity;
pub use checkpoint::{Checkpoint, CheckpointInfo, Restore, Restored};
pub(crate) use sequence::Sequence;
