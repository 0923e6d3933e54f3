//! What each kernel computes, in plain loops. Matrices are `[rows][cols]` of float32, as they read when unpacked.

mod argmax;
mod attention;
mod attention_merge;
mod embed;
mod gate;
mod lowrank;
mod penalize;
mod product;
mod quantise;
mod rms_norm;
mod rope_append;
mod short_conv;

pub use argmax::{argmax, argmax_parts, NONE, PART};
pub use attention::{attention, attention_step};
pub use attention_merge::attention_merge;
pub use embed::embed;
pub use gate::gate;
pub use lowrank::{lowrank_in, lowrank_out};
pub use penalize::penalize;
pub use product::{gemm, matvec, matvec4};
pub use quantise::{quantise, quantised};
pub use rms_norm::rms_norm;
pub use rope_append::rope_append;
pub use short_conv::short_conv;
