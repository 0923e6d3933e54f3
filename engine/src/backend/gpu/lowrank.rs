//! Low-rank updates of a pass's sequences: `y += factor * B (A x)` after the product they belong to.

use super::device::Gpu;
use super::kernels::Kernels;
use super::pass::Recorder;
use super::weights::Stack;
use crate::backend::{LowRank, LowRankSet, Updates};
use crate::error::Result;
use crate::model::plan::TensorId;
use lean_shaders::{self as shaders, LowrankInParams, LowrankOutParams};
use std::collections::HashMap;
use std::sync::Arc;

/// What some of a pass's tokens add to the weights.
pub struct Applied {
    /// First token of the batch, and how many.
    pub tokens: (usize, usize),
    /// The updates, on the device, and what they are multiplied with.
    pub sets: Vec<(Arc<OnDevice>, f32)>,
}

/// A set of updates on the device.
pub struct OnDevice {
    set: Arc<LowRankSet>,
    /// `A` and `B` by matrix.
    buffers: HashMap<TensorId, [wgpu::Buffer; 2]>,
}

/// Sets that sequences use.
#[derive(Default)]
pub struct Sets(Vec<Arc<OnDevice>>);

impl Sets {
    /// Forgets the sets that only this list still holds: no sequence can use them. Whether there were any.
    pub fn prune(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|known| Arc::strong_count(&known.set) > 1);
        self.0.len() < before
    }

    /// The sets of some updates, uploaded if they are new.
    pub fn of(&mut self, gpu: &Gpu, updates: &Updates) -> Result<Vec<(Arc<OnDevice>, f32)>> {
        let mut found = Vec::with_capacity(updates.0.len());
        for (set, scale) in updates.0.iter() {
            let known = self.0.iter().find(|known| Arc::ptr_eq(&known.set, set));
            let known = match known {
                Some(known) => known.clone(),
                None => {
                    let made = Arc::new(upload(gpu, set)?);
                    self.0.push(made.clone());
                    made
                }
            };
            found.push((known, *scale));
        }
        Ok(found)
    }
}

fn upload(gpu: &Gpu, set: &Arc<LowRankSet>) -> Result<OnDevice> {
    let mut buffers = HashMap::new();
    for (id, update) in set.iter() {
        let send = |values: &[f32]| -> Result<wgpu::Buffer> {
            let bytes: &[u8] = bytemuck::cast_slice(values);
            let buffer = gpu.storage("adapter", bytes.len() as u64)?;
            gpu.queue.write_buffer(&buffer, 0, bytes);
            Ok(buffer)
        };
        buffers.insert(*id, [send(update.a())?, send(update.b())?]);
    }
    Ok(OnDevice { set: set.clone(), buffers })
}

/// Whether any of a stack's matrices is updated in this pass.
pub fn touches(applied: &[Applied], stack: &Stack) -> bool {
    let sets = applied.iter().flat_map(|a| &a.sets);
    sets.into_iter().any(|(set, _)| stack.members.iter().any(|(id, _)| set.set.contains_key(id)))
}

/// Elements of `low` that a pass needs.
pub fn low_elems(applied: &[Applied]) -> usize {
    let of = |a: &Applied| {
        let ranks = a.sets.iter().flat_map(|(set, _)| set.set.values().map(LowRank::rank));
        a.tokens.1 * ranks.max().unwrap_or(0)
    };
    applied.iter().map(of).max().unwrap_or(0)
}

/// Adds the updates of a stack's matrices to its outputs `y`, rows of `stride` elements.
#[allow(clippy::too_many_arguments)]
pub fn add(
    r: &mut Recorder<'_>,
    kernels: &Kernels,
    applied: &[Applied],
    stack: &Stack,
    x: &wgpu::Buffer,
    low: &wgpu::Buffer,
    y: &wgpu::Buffer,
) -> Result<()> {
    for part in applied {
        let (first, count) = part.tokens;
        for (set, scale) in &part.sets {
            for (place, (id, row)) in stack.members.iter().enumerate() {
                let (Some(update), Some([a, b])) = (set.set.get(id), set.buffers.get(id)) else { continue };
                let params = LowrankInParams {
                    first: first as u32,
                    width: (stack.cols / 4) as u32,
                    rank: update.rank() as u32,
                };
                let grid = [update.rank() as u32, count as u32, 1];
                r.dispatch(kernels.plain(&shaders::LOWRANK_IN)?, &params, &[a, x, low], grid)?;
                let (offset, each) = if stack.paired { (place, stack.members.len()) } else { (*row, 1) };
                let params = LowrankOutParams {
                    first: first as u32,
                    rows: update.rows() as u32,
                    rank: update.rank() as u32,
                    stride: stack.rows as u32,
                    offset: offset as u32,
                    each: each as u32,
                    factor: update.factor() * scale,
                };
                let grid = [update.rows().div_ceil(64) as u32, count as u32, 1];
                r.dispatch(kernels.plain(&shaders::LOWRANK_OUT)?, &params, &[b, low, y], grid)?;
            }
        }
    }
    Ok(())
}
