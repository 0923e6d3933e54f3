//! Weights on the device, as float32, cut into row ranges that fit a binding.

use super::device::Gpu;
use super::pair;
use crate::backend::{Progress, WeightSource};
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::{Plan, TensorSpec};

/// Elements that are dequantised and uploaded at a time; bounds the host memory of a load.
const UPLOAD_ELEMS: usize = 1 << 21;

/// Consecutive rows of a weight.
#[derive(Debug)]
pub struct Piece {
    /// `[rows][cols]` float32.
    pub buffer: wgpu::Buffer,
    /// First row.
    pub row_begin: usize,
    /// How many.
    pub rows: usize,
}

/// One weight.
#[derive(Debug)]
pub struct Weight {
    /// All rows, in order.
    pub pieces: Vec<Piece>,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
}

impl Weight {
    /// The only piece of a vector.
    pub fn vector(&self) -> &wgpu::Buffer {
        &self.pieces[0].buffer
    }
}

/// Uploads every tensor of the plan, in its order.
pub fn upload(gpu: &Gpu, plan: &Plan, source: &mut dyn WeightSource, progress: Progress<'_>) -> Result<Vec<Weight>> {
    let total: u64 = plan.tensors.iter().map(file_bytes).sum();
    let mut done = 0;
    let mut weights = Vec::with_capacity(plan.tensors.len());
    progress(0, total)?;
    for spec in &plan.tensors {
        weights.push(upload_one(gpu, spec, source)?);
        done += file_bytes(spec);
        progress(done, total)?;
    }
    Ok(weights)
}

fn file_bytes(spec: &TensorSpec) -> u64 {
    (spec.rows * row_bytes(spec)) as u64
}

fn row_bytes(spec: &TensorSpec) -> usize {
    spec.cols / spec.dtype.block_elems() * spec.dtype.block_bytes()
}

fn upload_one(gpu: &Gpu, spec: &TensorSpec, source: &mut dyn WeightSource) -> Result<Weight> {
    let bytes = source.read(spec)?;
    if bytes.len() as u64 != file_bytes(spec) || spec.cols == 0 || spec.rows == 0 {
        let reason = format!("{} bytes for {} x {} elements", bytes.len(), spec.rows, spec.cols);
        return Err(Error::bad_model(&spec.name, reason));
    }
    let fit = (gpu.max_binding / (4 * spec.cols as u64)) as usize;
    if fit == 0 || (spec.rows == 1 && fit < 1) {
        let reason = format!("a row of {} is wider than this device's bindings", spec.name);
        return Err(Error::Device { reason });
    }
    let mut pieces = Vec::new();
    for row_begin in (0..spec.rows).step_by(fit) {
        let rows = fit.min(spec.rows - row_begin);
        let buffer = gpu.storage(&spec.name, (rows * spec.cols * 4) as u64)?;
        fill(gpu, spec, &bytes, row_begin, rows, &buffer)?;
        pieces.push(Piece { buffer, row_begin, rows });
    }
    Ok(Weight { pieces, rows: spec.rows, cols: spec.cols })
}

fn fill(gpu: &Gpu, spec: &TensorSpec, bytes: &[u8], begin: usize, rows: usize, to: &wgpu::Buffer) -> Result<()> {
    let step = (UPLOAD_ELEMS / spec.cols).clamp(1, rows);
    let mut values: Vec<f32> = try_zeroed(step * spec.cols, &spec.name)?;
    for at in (0..rows).step_by(step) {
        let count = step.min(rows - at);
        let range = (begin + at) * row_bytes(spec)..(begin + at + count) * row_bytes(spec);
        let values = &mut values[..count * spec.cols];
        crate::quant::dequantize_row(spec.dtype, &bytes[range], values)?;
        gpu.queue.write_buffer(to, (at * spec.cols * 4) as u64, bytemuck::cast_slice(values));
        // Staging memory is given back only after a submission has run.
        gpu.queue.submit([]);
        pair::wait(gpu)?;
    }
    Ok(())
}
