//! The GPU backend (wgpu).

use super::*;
use crate::error::{Error, Result};
use crate::model::plan::Plan;

/// Choices made at load.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Part of an adapter's name; `None` takes the first hardware adapter.
    pub adapter: Option<String>,
    /// Accept software adapters (lavapipe, SwiftShader, WARP).
    pub allow_software: bool,
}

/// Weights and states on a device.
pub struct GpuBackend {}

impl GpuBackend {
    /// Uploads all weights of a plan. `Error::Device` says what this device or plan lacks.
    pub fn load(_plan: Plan, _weights: &mut dyn WeightSource, _options: &GpuOptions, _progress: Progress<'_>) -> Result<Self> {
        Err(Error::Device { reason: "the GPU backend is not there yet; use --backend cpu".into() })
    }
}
