//! Hyper-parameters and the layer plan; one small file an architecture.
//!
//! Everything that can be wrong with a model is found here, before a weight is read: an architecture that is
//! not known, a missing or superfluous tensor, a shape that does not follow from the hyper-parameters, a type
//! that cannot be computed with, a number out of all proportion.

mod blocks;
mod gemma3;
mod hyper;
mod info;
mod lfm2;
mod llama;
pub mod plan;
mod qwen2;
mod qwen3;
mod rope;
mod targets;
mod tensors;
#[cfg(test)]
mod tests;

pub use info::ModelInfo;
pub use targets::{targets, Target, Targets};

use crate::error::{Error, Result};
use crate::gguf::Gguf;

/// One line an architecture: `general.architecture` and what makes a plan of it.
const ARCHITECTURES: &[(&str, fn(&Gguf) -> Result<plan::Plan>)] = &[
    ("gemma3", gemma3::plan),
    ("lfm2", lfm2::plan),
    ("llama", llama::plan),
    ("qwen2", qwen2::plan),
    ("qwen3", qwen3::plan),
];

/// The plan of a model file, with every tensor's presence, shape and type checked.
///
/// # Errors
/// [`Error::UnsupportedModel`] for a well-formed model that the engine cannot run, [`Error::BadModel`] for one
/// that contradicts itself, [`Error::ModelIo`] when a tensor that the plan needs (`rope_freqs.weight`) cannot
/// be read.
pub fn plan(gguf: &Gguf) -> Result<plan::Plan> {
    let name = gguf.metadata.str("general.architecture")?;
    match ARCHITECTURES.iter().find(|a| a.0 == name) {
        Some(architecture) => architecture.1(gguf),
        None => {
            let known: Vec<_> = architectures().collect();
            let what = format!("architecture {}", name.escape_debug());
            Err(Error::unsupported(what, format_args!("not known; known are {}", known.join(", "))))
        }
    }
}

/// The names of the architectures that the engine runs, as `general.architecture` has them.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|a| a.0)
}
