//! A sequence: token history and state; blocks, prefix reuse, checkpoints.
