//! A sequence: token history and state; blocks and checkpoints.

mod block;
mod checkpoint;
mod delta;
mod file;
mod pack;
mod prefix;
mod radix;
mod sequence;

pub use block::Block;
pub(crate) use block::BlockEncoder;
pub(crate) use checkpoint::Identity;
pub use checkpoint::{Checkpoint, CheckpointInfo, Restore, Restored, SaveOptions};
pub use file::CheckpointFile;
pub(crate) use prefix::PrefixCache;
pub use prefix::PrefixStats;
pub(crate) use sequence::Sequence;
