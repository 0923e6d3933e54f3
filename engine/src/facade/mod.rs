//! The facade: what `ffi`, the bridge, the command line and the web package see.

mod adapters;
mod core;
mod generation;
mod load;
mod many;
mod model;
mod rebuild;
#[cfg(test)]
mod schedule_tests;
mod session;
#[cfg(test)]
mod tests;

pub use generation::Generation;
pub use load::{BackendChoice, LoadOptions, ModelPlan};
pub use many::BranchRequest;
pub use model::{Context, Memory, Model, ModelInfo};
pub use session::{Session, SessionOptions};
