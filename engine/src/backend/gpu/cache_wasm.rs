//! A page has no files, and its browser keeps compiled pipelines itself. The twin of `cache.rs`.

/// Nothing.
pub struct Kept;

impl Kept {
    /// Nothing was left.
    pub fn open(_device: &wgpu::Device, _info: &wgpu::AdapterInfo) -> Self {
        Kept
    }

    /// None.
    pub fn cache(&self) -> Option<&wgpu::PipelineCache> {
        None
    }

    /// Does nothing.
    pub fn keep(&self) {}
}
