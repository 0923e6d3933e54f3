//! A sequence: token history and state; blocks and checkpoints.

mod block;
mod checkpoint;
mod file;
mod sequence;

pub(crate) use block::BlockEncoder;
pub use block::Block;
pub use checkpoint::{Checkpoint, CheckpointInfo, Restore, Restored};
pub(crate) use checkpoint::Identity;
pub(crate) use sequence::Sequence;
