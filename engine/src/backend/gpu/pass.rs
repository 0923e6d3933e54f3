//! Recording dispatches and copies, then submitting them at once.

use super::device::{Gpu, Pipeline};
use crate::error::Result;
use std::sync::Arc;

/// Workgroups of one dimension before the rest is folded into another; WebGPU allows 65,535.
const FOLD: u32 = 32_768;

enum Step {
    Dispatch { pipeline: Arc<Pipeline>, buffers: Vec<wgpu::Buffer>, params: u32, groups: [u32; 3] },
    Copy { from: wgpu::Buffer, at: u64, to: wgpu::Buffer, to_at: u64, bytes: u64 },
    Clear { buffer: wgpu::Buffer, at: u64, bytes: u64 },
}

/// Work in order; later steps see what earlier ones wrote.
#[derive(Default)]
pub struct Pass {
    steps: Vec<Step>,
    /// Parameter structs, each at a multiple of `ALIGN`.
    params: Vec<u8>,
}

/// WebGPU's largest alignment of dynamic uniform offsets.
const ALIGN: usize = 256;

impl Pass {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a kernel on `groups` workgroups; `buffers` in the order of its storage bindings. A dispatch of no
    /// workgroups is left out.
    pub fn dispatch<P: bytemuck::Pod>(
        &mut self,
        pipeline: &Arc<Pipeline>,
        params: &P,
        buffers: &[&wgpu::Buffer],
        groups: [u32; 3],
    ) {
        debug_assert_eq!(buffers.len() + 1, pipeline.kernel.bindings.len(), "{}", pipeline.kernel.name);
        if groups.contains(&0) {
            return;
        }
        let at = self.params.len() as u32;
        self.params.extend_from_slice(bytemuck::bytes_of(params));
        self.params.resize(self.params.len().next_multiple_of(ALIGN), 0);
        let buffers = buffers.iter().map(|b| (*b).clone()).collect();
        self.steps.push(Step::Dispatch { pipeline: pipeline.clone(), buffers, params: at, groups });
    }

    /// Copies bytes between two different buffers; all numbers are multiples of 4.
    pub fn copy(&mut self, from: &wgpu::Buffer, at: u64, to: &wgpu::Buffer, to_at: u64, bytes: u64) {
        if bytes > 0 {
            self.steps.push(Step::Copy { from: from.clone(), at, to: to.clone(), to_at, bytes });
        }
    }

    /// Zeroes bytes.
    pub fn clear(&mut self, buffer: &wgpu::Buffer, at: u64, bytes: u64) {
        if bytes > 0 {
            self.steps.push(Step::Clear { buffer: buffer.clone(), at, bytes });
        }
    }

    /// Queues everything. Nothing has been queued when this fails with an allocation.
    pub fn submit(self, gpu: &Gpu) -> Result<()> {
        use wgpu::BufferUsages as U;
        let params = gpu.buffer("kernel parameters", self.params.len() as u64, U::UNIFORM | U::COPY_DST)?;
        gpu.queue.write_buffer(&params, 0, &self.params);
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let mut steps = self.steps.iter().peekable();
        while let Some(step) = steps.next() {
            match step {
                Step::Copy { from, at, to, to_at, bytes } => {
                    encoder.copy_buffer_to_buffer(from, *at, to, *to_at, Some(*bytes));
                }
                Step::Clear { buffer, at, bytes } => encoder.clear_buffer(buffer, *at, Some(*bytes)),
                Step::Dispatch { .. } => {
                    let mut compute = encoder.begin_compute_pass(&Default::default());
                    let mut next = Some(step);
                    while let Some(step) = next {
                        run(gpu, &mut compute, step, &params);
                        next = steps.next_if(|s| matches!(s, Step::Dispatch { .. }));
                    }
                }
            }
        }
        gpu.queue.submit([encoder.finish()]);
        gpu.check()
    }
}

fn run(gpu: &Gpu, compute: &mut wgpu::ComputePass<'_>, step: &Step, all_params: &wgpu::Buffer) {
    let Step::Dispatch { pipeline, buffers, params, groups } = step else { return };
    let bytes = match pipeline.kernel.bindings.first() {
        Some(lean_shaders::Binding::Uniform { bytes }) => *bytes,
        _ => return,
    };
    let uniform = wgpu::BufferBinding { buffer: all_params, offset: 0, size: wgpu::BufferSize::new(bytes) };
    let mut entries =
        vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(uniform) }];
    entries.extend(
        buffers
            .iter()
            .zip(1..)
            .map(|(b, binding)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() }),
    );
    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(pipeline.kernel.name),
        layout: &pipeline.layout,
        entries: &entries,
    });
    compute.set_pipeline(&pipeline.program);
    compute.set_bind_group(0, &group, &[*params]);
    compute.dispatch_workgroups(groups[0], groups[1], groups[2]);
}

/// Workgroups for the kernels that call `flat_group`.
pub fn flat(groups: usize) -> [u32; 3] {
    let groups = groups as u32;
    [groups.min(FOLD), groups.div_ceil(FOLD), 1]
}

/// Workgroups of 256 invocations for `count` elements.
pub fn elementwise(count: usize) -> [u32; 3] {
    flat(count.div_ceil(256))
}

/// Workgroups of `matmul`: four tiles of rows and `tile` tokens each.
pub fn matmul_groups(rows: usize, tokens: usize, tile: usize) -> [u32; 3] {
    [rows.div_ceil(4 * lean_shaders::twin::ROW_TILE) as u32, tokens.div_ceil(tile) as u32, 1]
}
