//! lean: an embeddable LLM inference engine whose results are typed values and whose state is exact.
#![deny(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod adapter;
pub mod backend;
mod cancel;
pub mod chat;
pub mod constrain;
pub mod context;
mod error;
#[cfg(target_arch = "wasm32")]
pub mod event_loop;
mod facade;
#[cfg(all(target_arch = "wasm32", target_feature = "atomics"))]
/// Threads of a page, which its host starts.
pub mod helpers {
    pub use crate::backend::cpu::{help, idle};
}
pub mod files;
pub mod generate;
pub mod gguf;
pub mod model;
pub mod quant;
pub mod safetensors;
pub mod schedule;
pub mod tokenizer;

pub use adapter::{Adapter, AdapterInfo, AdapterUse};
#[cfg(feature = "gpu")]
pub use backend::gpu::{devices, without_mesas_device_selection, GpuDevice};
pub use backend::{Counters, KernelTime, KvType, Precision, SamplerParams};
pub use cancel::CancelToken;
pub use chat::Chat;
pub use constrain::{Reply, ToolCall, ToolChoice, ToolSyntax, Tools, Type, TypeSource};
pub use context::{
    Block, Checkpoint, CheckpointFile, CheckpointInfo, PrefixStats, Restore, Restored, SaveOptions,
};
pub use error::{Error, Result};
pub use facade::{
    BackendChoice, BranchRequest, Context, Generation, LoadOptions, Memory, Model, ModelInfo, ModelPlan,
    Session, SessionOptions,
};
pub use generate::{
    Alternative, Candidate, Confidence, Event, Finish, Leaf, Output, Request, RequestOptions, Usage,
    MAX_CANDIDATES,
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
