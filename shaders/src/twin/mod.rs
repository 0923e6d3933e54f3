//! What each kernel computes, in plain loops; arguments in the order of the kernel's bindings.

mod add;
mod argmax;
mod attention;
mod embed;
mod gate;
mod kv_append;
mod matmul;
mod rms_norm;
mod rope;
mod short_conv;
mod weights;

pub use add::add;
pub use argmax::{argmax, NONE};
pub use attention::attention;
pub use embed::embed;
pub use gate::gate;
pub use kv_append::kv_append;
pub use matmul::matmul;
pub use rms_norm::rms_norm;
pub use rope::rope;
pub use short_conv::short_conv;
pub use weights::{tiled, weight_at, ROW_TILE};
