//! Recording dispatches and copies, then submitting them at once.

use super::device::{Gpu, Pipeline};
use super::times::Clock;
use crate::error::Result;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

/// Workgroups of one dimension before the rest is folded into another; WebGPU allows 65,535.
const FOLD: u32 = 32_768;

/// WebGPU's largest alignment of dynamic uniform offsets.
const ALIGN: u64 = 256;

/// Parameter structs that one buffer holds.
const PARAMS: u64 = 4096;

enum Step {
    Dispatch { pipeline: Arc<Pipeline>, group: wgpu::BindGroup, params: u32, grid: [u32; 3] },
    Copy { from: wgpu::Buffer, at: u64, to: wgpu::Buffer, to_at: u64, bytes: u64 },
    Clear { buffer: wgpu::Buffer, at: u64, bytes: u64 },
}

/// Work in order; later steps see what earlier ones wrote.
#[derive(Default)]
pub struct Pass {
    steps: Vec<Step>,
    dispatches: u64,
}

/// A bind group and what it was made of.
struct Bound {
    pipeline: Arc<Pipeline>,
    buffers: Vec<wgpu::Buffer>,
    group: wgpu::BindGroup,
}

/// Bind groups and parameters that were used before: the passes of a decode use the same ones again and again.
#[derive(Default)]
pub struct Prepared {
    hasher: RandomState,
    bound: HashMap<u64, Vec<Bound>>,
    params: HashMap<Vec<u8>, u32>,
    buffer: Option<wgpu::Buffer>,
}

impl Prepared {
    /// Forgets bind groups, and with them the buffers that they keep alive.
    pub fn forget(&mut self) {
        self.bound.clear();
    }

    /// Where a parameter struct lies in the buffer of them.
    fn params(&mut self, gpu: &Gpu, bytes: &[u8]) -> Result<(wgpu::Buffer, u32)> {
        if self.params.len() as u64 >= PARAMS {
            // What was recorded keeps the old buffer.
            self.buffer = None;
            self.params.clear();
            self.forget();
        }
        let buffer = match &self.buffer {
            Some(buffer) => buffer.clone(),
            None => {
                use wgpu::BufferUsages as U;
                let made = gpu.buffer("kernel parameters", PARAMS * ALIGN, U::UNIFORM | U::COPY_DST)?;
                self.buffer.insert(made).clone()
            }
        };
        let at = match self.params.get(bytes) {
            Some(at) => *at,
            None => {
                let at = self.params.len() as u64 * ALIGN;
                gpu.queue.write_buffer(&buffer, at, bytes);
                self.params.insert(bytes.to_vec(), at as u32);
                at as u32
            }
        };
        Ok((buffer, at))
    }

    /// The bind group of a pipeline and its storage buffers.
    fn group(
        &mut self,
        gpu: &Gpu,
        pipeline: &Arc<Pipeline>,
        params: &wgpu::Buffer,
        buffers: &[&wgpu::Buffer],
    ) -> wgpu::BindGroup {
        let mut hash = self.hasher.build_hasher();
        Arc::as_ptr(pipeline).addr().hash(&mut hash);
        buffers.iter().for_each(|buffer| buffer.hash(&mut hash));
        let alike = self.bound.entry(hash.finish()).or_default();
        let same =
            |b: &&Bound| Arc::ptr_eq(&b.pipeline, pipeline) && b.buffers.iter().eq(buffers.iter().copied());
        if let Some(bound) = alike.iter().find(same) {
            return bound.group.clone();
        }
        let group = bind(gpu, pipeline, params, buffers);
        let buffers = buffers.iter().map(|b| (*b).clone()).collect();
        alike.push(Bound { pipeline: pipeline.clone(), buffers, group: group.clone() });
        group
    }
}

fn bind(gpu: &Gpu, pipeline: &Pipeline, params: &wgpu::Buffer, buffers: &[&wgpu::Buffer]) -> wgpu::BindGroup {
    let size = match pipeline.kernel.bindings.first() {
        Some(lean_shaders::Binding::Uniform { bytes }) => wgpu::BufferSize::new(*bytes),
        _ => None,
    };
    let uniform = wgpu::BufferBinding { buffer: params, offset: 0, size };
    let mut entries =
        vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(uniform) }];
    entries.extend(
        buffers
            .iter()
            .zip(1..)
            .map(|(b, binding)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() }),
    );
    gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(pipeline.kernel.name),
        layout: &pipeline.layout,
        entries: &entries,
    })
}

impl Pass {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Dispatches so far.
    pub fn dispatches(&self) -> u64 {
        self.dispatches
    }

    /// Puts what was recorded elsewhere in front.
    pub fn after(mut self, mut earlier: Pass) -> Pass {
        earlier.steps.append(&mut self.steps);
        Pass { steps: earlier.steps, dispatches: self.dispatches + earlier.dispatches }
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
        let mut times = gpu.times();
        let mut clock = match &*times {
            Some(times) => Some(Clock::new(gpu, times, self.dispatches)?),
            None => None,
        };
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let mut steps = self.steps.iter().peekable();
        while let Some(step) = steps.next() {
            match step {
                Step::Copy { from, at, to, to_at, bytes } => {
                    encoder.copy_buffer_to_buffer(from, *at, to, *to_at, Some(*bytes));
                }
                Step::Clear { buffer, at, bytes } => encoder.clear_buffer(buffer, *at, Some(*bytes)),
                Step::Dispatch { pipeline, grid, .. } => {
                    let timed = clock.as_ref().is_some_and(|c| c.each);
                    let timestamp_writes = clock.as_mut().and_then(|c| c.around(pipeline.kernel.name, *grid));
                    let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
                    let mut compute = encoder.begin_compute_pass(&descriptor);
                    let mut next = Some(step);
                    while let Some(step) = next {
                        if let Step::Dispatch { pipeline, group, params, grid } = step {
                            compute.set_pipeline(&pipeline.program);
                            compute.set_bind_group(0, group, &[*params]);
                            compute.dispatch_workgroups(grid[0], grid[1], grid[2]);
                        }
                        // Timestamps stand around a pass: each dispatch is one.
                        next = steps.next_if(|s| !timed && matches!(s, Step::Dispatch { .. }));
                    }
                }
            }
        }
        if let Some(clock) = &clock {
            clock.finish(&mut encoder);
        }
        gpu.queue.submit([encoder.finish()]);
        if let (Some(times), Some(clock)) = (&mut *times, clock) {
            times.keep(clock);
        }
        drop(times);
        gpu.check()
    }
}

/// A pass being recorded, with what earlier ones prepared.
pub struct Recorder<'a> {
    pub gpu: &'a Gpu,
    pub prepared: &'a mut Prepared,
    pub pass: &'a mut Pass,
}

impl Recorder<'_> {
    /// Runs a kernel on a grid of workgroups; `buffers` in the order of its storage bindings. A dispatch of no
    /// workgroups is left out.
    pub fn dispatch<P: bytemuck::Pod>(
        &mut self,
        pipeline: &Arc<Pipeline>,
        params: &P,
        buffers: &[&wgpu::Buffer],
        grid: [u32; 3],
    ) -> Result<()> {
        debug_assert_eq!(buffers.len() + 1, pipeline.kernel.bindings.len(), "{}", pipeline.kernel.name);
        if grid.contains(&0) {
            return Ok(());
        }
        let (buffer, params) = self.prepared.params(self.gpu, bytemuck::bytes_of(params))?;
        let group = self.prepared.group(self.gpu, pipeline, &buffer, buffers);
        self.pass.dispatches += 1;
        self.pass.steps.push(Step::Dispatch { pipeline: pipeline.clone(), group, params, grid });
        Ok(())
    }
}

/// Workgroups for the kernels that call `flat_group`.
pub fn flat(groups: usize) -> [u32; 3] {
    let groups = groups as u32;
    [groups.min(FOLD), groups.div_ceil(FOLD), 1]
}

/// Workgroups of `lanes` invocations for `count` elements.
pub fn elementwise(count: usize, lanes: usize) -> [u32; 3] {
    flat(count.div_ceil(lanes))
}
