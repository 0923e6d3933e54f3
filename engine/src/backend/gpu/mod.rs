//! The GPU backend (wgpu): weights as quantised as in the file, paged state, one queue.
//!
//! The plan is executed by [`forward`]: the kernels follow the shape of the work. A [`pass::Pass`] is recorded and
//! submitted at once, with bind groups and parameters that earlier passes prepared. States are page tables over
//! pools ([`states`]). Greedy choices, with masks and penalties, are made on the device, go with the next
//! submission, and can be read by the next pass before the host knows them. Nothing waits except in `native.rs` and `wasm.rs`
//! (loading, exporting, and a host-side choice that a following pass depends on).

mod adapter;
#[cfg_attr(target_arch = "wasm32", path = "cache_wasm.rs")]
mod cache;
mod device;
mod forward;
#[cfg(test)]
mod kernel_tests;
mod kernels;
mod lowrank;
mod model;
mod pack;
#[cfg_attr(target_arch = "wasm32", path = "wasm.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "native.rs")]
mod pair;
mod pass;
mod pool;
mod readback;
mod scratch;
mod states;
mod submit;
mod tickets;
mod times;
mod weights;

pub use adapter::{devices, without_mesas_device_selection, GpuDevice};

use super::*;
use crate::error::{Error, Result};
use crate::model::plan::Plan;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Choices made at load.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Part of an adapter's name, its number in [`devices`], `high-performance` or `low-power`; `None` takes the best
    /// one.
    pub adapter: Option<String>,
    /// Accept software adapters (lavapipe, SwiftShader, WARP).
    pub allow_software: bool,
    /// Use no storage binding of more bytes than this, even where the device offers it (for tests).
    pub max_binding: Option<u64>,
    /// Use no subgroup operations, even where the device offers them (for tests).
    pub no_subgroups: bool,
    /// Take products with few tokens of bytes where that needs no more than subgroup operations; `None` where the
    /// device is hardware too (for tests).
    pub bytes: Option<bool>,
    /// How exactly it is computed: `Fast` takes the products of many tokens of floats of 16 bits.
    pub precision: Precision,
}

/// Tokens of a pass of a long prefill: enough to fill the tiles of a large device.
const PASS_TOKENS: usize = 512;

/// Weights and states on a device.
pub struct GpuBackend {
    gpu: device::Gpu,
    model: model::Model,
    shape: StateShape,
    weight_bytes: u64,
    inner: Mutex<Inner>,
}

/// What calls change. The lock is held while a pass is recorded, never while a device works, except where a
/// call has to wait (see the module's documentation).
struct Inner {
    states: states::States,
    tickets: HashMap<Ticket, tickets::Ticket>,
    next_ticket: u64,
    shared: submit::Shared,
    widths: scratch::Widths,
}

impl GpuBackend {
    /// Uploads all weights of a plan and compiles its kernels.
    ///
    /// # Errors
    /// [`Error::Device`] says what this device or plan lacks (no adapter, a head size without a kernel),
    /// [`Error::OutOfMemory`] what did not fit; those of `weights` and `progress` are passed on.
    pub fn load(
        plan: Plan,
        weights: &mut dyn WeightSource,
        options: &GpuOptions,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let gpu = device::Gpu::open(options)?;
        let shape = StateShape::new(&plan);
        let states = states::States::new(&gpu, shape.clone())?;
        let (model, weight_bytes) = load_model(&gpu, &plan, weights, progress)?;
        let widths = scratch::Widths::of(&model.layers, plan.hidden);
        if submit::max_tokens(&gpu, &widths) == 0 {
            return Err(Error::Device {
                reason: "this device's bindings do not hold one token's activations".into(),
            });
        }
        let shared = submit::Shared::new(&gpu)?;
        let inner = Inner { states, tickets: HashMap::new(), next_ticket: 0, shared, widths };
        Ok(GpuBackend { gpu, model, shape, weight_bytes, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> Result<MutexGuard<'_, Inner>> {
        self.gpu.check()?;
        Ok(self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves states and tickets consistent: they change only after everything that can fail.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Uploads the weights and compiles the kernels; the model and its bytes on the device.
fn load_model(
    gpu: &device::Gpu,
    plan: &Plan,
    source: &mut dyn WeightSource,
    progress: Progress<'_>,
) -> Result<(model::Model, u64)> {
    let frequencies = model::frequencies(plan)?;
    let mut to = weights::Uploader::new(gpu, plan, source, progress)?;
    let embedding = Arc::new(to.matrices(&[plan.embedding], false)?);
    let mut binder = model::Binder { plan, frequencies: &frequencies, to: &mut to };
    let layers = plan.layers.iter().map(|layer| binder.layer(layer)).collect::<Result<Vec<_>>>()?;
    let final_norm = binder.norm(&plan.final_norm)?;
    let head = match plan.head == plan.embedding {
        true => embedding.clone(),
        false => Arc::new(to.matrices(&[plan.head], false)?),
    };
    to.flush()?;
    let weight_bytes = to.bytes;
    let kernels = kernels::Kernels::compile(gpu, &layers, &embedding, &head)?;
    gpu.kept.keep();
    let model = model::Model {
        vocab: plan.vocab,
        hidden: plan.hidden,
        embedding,
        embedding_scale: plan.embedding_scale,
        layers,
        final_norm,
        head,
        frequencies,
        kernels,
        nothing: gpu.storage("nothing", 256)?,
    };
    Ok((model, weight_bytes))
}

impl Inner {
    fn ticket(&mut self, ticket: Ticket) -> Result<&mut tickets::Ticket> {
        self.tickets.get_mut(&ticket).ok_or_else(|| Error::invalid("ticket", format!("{} is over", ticket.0)))
    }

    fn end_slot(&mut self, ticket: Ticket, slot: usize) {
        if let Some(state) = self.tickets.get_mut(&ticket) {
            if let Some(place) = state.slots.get_mut(slot) {
                let ended = place.take();
                self.shared.token_reads.extend(ended.and_then(|slot| slot.token.spare()));
            }
            if state.is_over() {
                if let Some(ticket) = self.tickets.remove(&ticket) {
                    self.shared.give_back(ticket);
                }
            }
        }
    }
}

impl Backend for GpuBackend {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            kind: "gpu",
            description: self.gpu.description.clone(),
            exactness_class: match self.gpu.tiles {
                device::Tiles::Floats | device::Tiles::Split => "gpu-exact-f32kv-r4".into(),
                device::Tiles::Cooperative | device::Tiles::Halves => "gpu-fast-f32kv-r1".into(),
            },
            weight_bytes: self.weight_bytes,
        }
    }

    fn shape(&self) -> &StateShape {
        &self.shape
    }

    fn new_state(&self) -> Result<StateId> {
        self.inner()?.states.create(&self.gpu)
    }

    fn free_state(&self, state: StateId) {
        let mut inner = self.lock();
        inner.states.free(state);
        inner.shared.free_adapters();
    }

    fn len(&self, state: StateId) -> Result<usize> {
        Ok(self.inner()?.states.get(state)?.len)
    }

    fn fork(&self, state: StateId) -> Result<StateId> {
        self.inner()?.states.fork(state)
    }

    fn truncate(&self, state: StateId, len: usize) -> Result<usize> {
        self.inner()?.states.truncate(&self.gpu, state, len)
    }

    fn adapt(&self, state: StateId, updates: &Updates) -> Result<()> {
        self.model.check_updates(&self.gpu.limits, updates)?;
        let mut inner = self.inner()?;
        inner.states.adapt(state, updates)?;
        inner.shared.free_adapters();
        Ok(())
    }

    fn export(&self, state: StateId) -> Result<StateImage> {
        self.inner()?.states.export(&self.gpu, state)
    }

    fn import(&self, image: &StateImage) -> Result<StateId> {
        self.inner()?.states.import(&self.gpu, image)
    }

    fn parts(&self, state: StateId) -> Result<Vec<(u64, u64)>> {
        self.inner()?.states.parts(state)
    }

    fn pages_copied(&self) -> u64 {
        self.lock().states.copied
    }

    fn state_bytes(&self) -> u64 {
        self.lock().states.bytes()
    }

    fn pass_tokens(&self) -> usize {
        submit::max_tokens(&self.gpu, &self.lock().widths).min(PASS_TOKENS)
    }

    fn chooses_ahead(&self) -> bool {
        true
    }

    fn counters(&self) -> Counters {
        self.lock().shared.counters
    }

    fn time_kernels(&self, each: bool) -> Result<()> {
        if !self.gpu.timestamps {
            return Err(times::no_clock(&self.gpu));
        }
        *self.gpu.times() = Some(times::Times::new(each));
        Ok(())
    }

    fn lose_device(&self) {
        self.gpu.device.destroy();
        let _ = self.gpu.device.poll(wgpu::PollType::Poll);
    }

    fn kernel_times(&self) -> Result<Vec<KernelTime>> {
        let times = self.gpu.times().take();
        times.map_or(Ok(Vec::new()), |times| times.sums(&self.gpu))
    }

    fn submit(&self, batch: Batch) -> Result<Ticket> {
        let mut inner = self.inner()?;
        let began = web_time::Instant::now();
        let submitted = submit::submit(&self.gpu, &self.model, &mut inner, &batch)?;
        inner.shared.counters.host_nanos += began.elapsed().as_nanos() as u64;
        let ticket = Ticket(inner.next_ticket);
        inner.next_ticket += 1;
        inner.tickets.insert(ticket, submitted);
        Ok(ticket)
    }

    fn select(&self, ticket: Ticket, slot: usize, selection: Selection<'_>) -> Result<()> {
        let mut inner = self.inner()?;
        let Inner { tickets, shared, .. } = &mut *inner;
        let ticket = tickets
            .get_mut(&ticket)
            .ok_or_else(|| Error::invalid("ticket", format!("{} is over", ticket.0)))?;
        ticket.select(&self.gpu, &self.model, shared, slot, &selection)
    }

    fn poll(&self, ticket: Ticket, slot: usize) -> Result<Poll<SlotOutput>> {
        let mut inner = self.inner()?;
        inner.shared.flush(&self.gpu)?;
        // Lets callbacks of finished work run; does not wait.
        let _ = self.gpu.device.poll(wgpu::PollType::Poll);
        self.gpu.check()?;
        let result = inner.ticket(ticket)?.poll(slot);
        if !matches!(result, Ok(Poll::Pending)) {
            inner.end_slot(ticket, slot);
        }
        result
    }

    fn discard(&self, ticket: Ticket, slot: usize) {
        self.lock().end_slot(ticket, slot);
    }
}
