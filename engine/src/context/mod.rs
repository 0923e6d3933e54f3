//! A sequence: token history and state; blocks and checkpoints.

mod block;
mod checkpoint;
mod file;
#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod disk;
#[cfg(target_arch = "wasm32")]
#[path = "wasm.rs"]
mod disk;
mod sequence;

pub(crate) use block::BlockEncoder;
pub use block::Block;
pub use checkpoint::{Checkpoint, CheckpointInfo, Restore, Restored};
pub(crate) use checkpoint::Identity;
pub(crate) use sequence::Sequence;
