//! The CPU backend.

use super::*;
use crate::error::{Error, Result};
use crate::model::plan::Plan;

/// Choices made at load.
#[derive(Debug, Clone, Default)]
pub struct CpuOptions {
    /// Threads that run a pass, the caller's included; 0 is the number of cores the process may use.
    pub threads: usize,
    /// Use the portable kernels even where faster ones exist (for tests and comparisons).
    pub portable: bool,
}

/// Weights in the CPU's layouts, and the states of sequences.
pub struct CpuBackend {}

impl CpuBackend {
    /// Reads and repacks all weights of a plan.
    pub fn load(_plan: Plan, _weights: &mut dyn WeightSource, _options: &CpuOptions, _progress: Progress<'_>) -> Result<Self> {
        Err(Error::Internal("the CPU backend is not there yet".into()))
    }
}
