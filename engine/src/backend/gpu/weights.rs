//! Weights on the device, as float32: matrices in the kernels' tiles, cut into row ranges that fit a binding.

use super::device::Gpu;
use super::pair;
use crate::backend::{Progress, WeightSource};
use crate::error::{try_zeroed, Error, Result};
use crate::model::plan::{Linear, Mixer, Plan, TensorId, TensorSpec};
use lean_shaders::twin::{tiled, ROW_TILE};
use std::collections::HashSet;
use std::ops::Range;

/// Elements that are dequantised and uploaded at a time; bounds the host memory of a load.
const UPLOAD_ELEMS: usize = 1 << 21;

/// Bytes in staging buffers before the device is waited for.
const STAGED_BYTES: usize = 64 << 20;

/// Consecutive rows of a weight.
#[derive(Debug)]
pub struct Piece {
    /// A vector as it is; a matrix in tiles.
    pub buffer: wgpu::Buffer,
    /// First row, a multiple of [`ROW_TILE`].
    pub row_begin: usize,
    /// How many.
    pub rows: usize,
}

/// One weight.
#[derive(Debug)]
pub struct Weight {
    /// All rows, in order; a vector has one.
    pub pieces: Vec<Piece>,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Bytes on the device.
    pub bytes: u64,
}

impl Weight {
    /// The only piece of a vector.
    pub fn vector(&self) -> &wgpu::Buffer {
        &self.pieces[0].buffer
    }
}

/// Uploads every tensor of the plan, in its order.
pub fn upload(
    gpu: &Gpu,
    plan: &Plan,
    source: &mut dyn WeightSource,
    progress: Progress<'_>,
) -> Result<Vec<Weight>> {
    let total: u64 = plan.tensors.iter().map(file_bytes).sum();
    let matrices = matrices(plan);
    let mut to = Uploader { gpu, staged: 0 };
    let mut done = 0;
    let mut weights = Vec::with_capacity(plan.tensors.len());
    progress(0, total)?;
    for (id, spec) in plan.tensors.iter().enumerate() {
        let bytes = source.read(spec)?;
        if bytes.len() as u64 != file_bytes(spec) || spec.cols == 0 || spec.rows == 0 {
            let reason = format!("{} bytes for {} x {} elements", bytes.len(), spec.rows, spec.cols);
            return Err(Error::bad_model(&spec.name, reason));
        }
        weights.push(match matrices.contains(&TensorId(id)) {
            true => matrix(&mut to, spec, &bytes)?,
            false => vector(&mut to, spec, &bytes)?,
        });
        done += file_bytes(spec);
        progress(done, total)?;
    }
    to.flush()?;
    Ok(weights)
}

/// The tensors that `matmul` and `embed` read.
fn matrices(plan: &Plan) -> HashSet<TensorId> {
    let mut ids = HashSet::from([plan.embedding, plan.head]);
    let mut add = |linears: &[&Linear]| ids.extend(linears.iter().map(|l| l.weight));
    for layer in &plan.layers {
        match &layer.mixer {
            Mixer::Attention(a) => add(&[&a.q, &a.k, &a.v, &a.o]),
            Mixer::ShortConv(c) => add(&[&c.in_proj, &c.out_proj]),
        }
        add(&[&layer.ffn.gate, &layer.ffn.up, &layer.ffn.down]);
    }
    ids
}

fn file_bytes(spec: &TensorSpec) -> u64 {
    (spec.rows * row_bytes(spec)) as u64
}

fn row_bytes(spec: &TensorSpec) -> usize {
    spec.cols / spec.dtype.block_elems() * spec.dtype.block_bytes()
}

fn vector(to: &mut Uploader<'_>, spec: &TensorSpec, bytes: &[u8]) -> Result<Weight> {
    let mut values: Vec<f32> = try_zeroed(spec.rows * spec.cols, &spec.name)?;
    crate::quant::dequantize_row(spec.dtype, bytes, &mut values)?;
    let bytes = (values.len() * 4) as u64;
    let buffer = to.gpu.storage(&spec.name, bytes)?;
    to.send(&buffer, 0, &values)?;
    let piece = Piece { buffer, row_begin: 0, rows: spec.rows };
    Ok(Weight { pieces: vec![piece], rows: spec.rows, cols: spec.cols, bytes })
}

fn matrix(to: &mut Uploader<'_>, spec: &TensorSpec, bytes: &[u8]) -> Result<Weight> {
    let tile_bytes = (ROW_TILE * spec.cols * 4) as u64;
    let fit = (to.gpu.max_binding / tile_bytes) as usize * ROW_TILE;
    if fit == 0 {
        let reason = format!("{ROW_TILE} rows of {} are more than this device binds at once", spec.name);
        return Err(Error::Device { reason });
    }
    let mut weight = Weight { pieces: Vec::new(), rows: spec.rows, cols: spec.cols, bytes: 0 };
    for row_begin in (0..spec.rows).step_by(fit) {
        let rows = fit.min(spec.rows - row_begin);
        let bytes_here = rows.div_ceil(ROW_TILE) as u64 * tile_bytes;
        let buffer = to.gpu.storage(&spec.name, bytes_here)?;
        fill(to, spec, bytes, row_begin..row_begin + rows, &buffer)?;
        weight.pieces.push(Piece { buffer, row_begin, rows });
        weight.bytes += bytes_here;
    }
    Ok(weight)
}

/// Dequantises and uploads rows of a matrix, some tiles at a time.
fn fill(
    to: &mut Uploader<'_>,
    spec: &TensorSpec,
    bytes: &[u8],
    rows: Range<usize>,
    buffer: &wgpu::Buffer,
) -> Result<()> {
    let step = (UPLOAD_ELEMS / spec.cols / ROW_TILE).max(1) * ROW_TILE;
    let mut values: Vec<f32> = try_zeroed(step.min(rows.len()) * spec.cols, &spec.name)?;
    let mut tiles = Vec::new();
    for at in rows.clone().step_by(step) {
        let count = step.min(rows.end - at);
        let values = &mut values[..count * spec.cols];
        crate::quant::dequantize_row(
            spec.dtype,
            &bytes[at * row_bytes(spec)..][..count * row_bytes(spec)],
            values,
        )?;
        tiled(count, spec.cols, values, &mut tiles);
        to.send(buffer, (at - rows.start) * spec.cols, &tiles)?;
    }
    Ok(())
}

/// The queue, and how much of what was written is not known to have arrived.
struct Uploader<'a> {
    gpu: &'a Gpu,
    staged: usize,
}

impl Uploader<'_> {
    fn send(&mut self, to: &wgpu::Buffer, elem: usize, values: &[f32]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.gpu.queue.write_buffer(to, (elem * 4) as u64, bytes);
        self.staged += bytes.len();
        if self.staged >= STAGED_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Staging memory is given back only after a submission has run.
    fn flush(&mut self) -> Result<()> {
        self.gpu.queue.submit([]);
        self.staged = 0;
        pair::wait(self.gpu)
    }
}
