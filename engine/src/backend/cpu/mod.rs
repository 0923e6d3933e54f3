//! The CPU backend: weights quantised in memory, activations and state in float32.
//!
//! Results are bit-identical within an exactness class, however the work is cut: every sum has an order that
//! depends on the row, the token and its position alone (see the crate `lean-kernels`).

mod lowrank;
mod matrix;
mod memory;
mod mixers;
mod pass;
mod pool;
mod scratch;
pub mod speed;
mod states;
#[cfg(test)]
mod tests;
mod tickets;
mod weights;

use super::*;
use crate::error::{Error, Result};
use crate::model::plan::Plan;
use lean_kernels::Isa;
use pass::{Pass, Sequence};
#[cfg(all(target_arch = "wasm32", target_feature = "atomics"))]
pub use pool::threads::{help, idle};
use pool::Pool;
use scratch::Scratch;
use states::{Open, States};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tickets::Tickets;
use weights::Weights;

/// Raised when a change to a kernel changes the bits of a result.
const KERNEL_REVISION: u32 = 2;

/// Choices made at load.
#[derive(Debug, Clone, Default)]
pub struct CpuOptions {
    /// Threads that run a pass, the caller's included; 0 is the number of cores the process may use.
    pub threads: usize,
    /// Use the portable kernels even where faster ones exist (for tests and comparisons).
    pub portable: bool,
    /// How keys and values are stored; with [`Precision::Fast`] in half precision instead of float32.
    pub kv: KvType,
    /// How exactly it is computed.
    pub precision: Precision,
}

/// Weights in the CPU's layouts, and the states of sequences.
///
/// Methods may be called from several threads: passes take turns, everything else goes on meanwhile. A state
/// that a pass is extending is `Error::Busy` to whatever would read or change it.
pub struct CpuBackend {
    weights: Weights,
    shape: StateShape,
    isa: Isa,
    precision: Precision,
    threads: usize,
    /// Held for a whole pass. Taken before the other two.
    engine: Mutex<Engine>,
    states: Mutex<States>,
    tickets: Mutex<Tickets>,
}

struct Engine {
    pool: Pool,
    scratch: Scratch,
}

/// Locks even after a panic: what these mutexes guard is changed in steps that cannot panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CpuBackend {
    /// Reads and repacks all weights of a plan, one tensor at a time.
    ///
    /// # Errors
    /// What the source and `progress` return; `BadModel` and `UnsupportedModel` for weights that do not fit the
    /// plan; `OutOfMemory`; `Device` if threads cannot be started.
    pub fn load(
        plan: Plan,
        weights: &mut dyn WeightSource,
        options: &CpuOptions,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let threads = match options.threads {
            0 => pool::default_threads(),
            n if n <= pool::MAX_THREADS => n,
            n => return Err(Error::invalid("threads", format!("{n} is more than {}", pool::MAX_THREADS))),
        };
        let mut pool = Pool::new(threads)?;
        let weights = Weights::load(&plan, weights, &mut pool, progress)?;
        let kv = match (options.precision, options.kv) {
            (Precision::Fast, KvType::F32) => KvType::F16,
            (_, kv) => kv,
        };
        if cfg!(target_endian = "big") && kv != KvType::F32 {
            return Err(Error::Device {
                reason: format!("{kv} keys and values need a little-endian machine"),
            });
        }
        let shape = StateShape::with_kv(&plan, kv);
        Ok(CpuBackend {
            weights,
            isa: if options.portable { Isa::PORTABLE } else { Isa::detect() },
            precision: options.precision,
            threads: pool.threads(),
            engine: Mutex::new(Engine { pool, scratch: Scratch::default() }),
            states: Mutex::new(States::new(shape.clone())),
            tickets: Mutex::default(),
            shape,
        })
    }

    /// The ids of a slot's input.
    fn tokens(&self, input: &Input) -> Result<Vec<u32>> {
        let tokens = match input {
            Input::Tokens(ids) => ids.clone(),
            Input::Sampled(ticket, slot) => vec![lock(&self.tickets).token(*ticket, *slot)?],
        };
        if tokens.is_empty() {
            return Err(Error::invalid("batch", "a slot has no tokens"));
        }
        match tokens.iter().find(|&&id| id as usize >= self.weights.vocab) {
            Some(id) => Err(Error::invalid(
                "token",
                format!("{id} is not below the vocabulary's {}", self.weights.vocab),
            )),
            None => Ok(tokens),
        }
    }

    /// Runs the pass of states that are open. Returns each slot's logits and new windows.
    fn pass(
        &self,
        engine: &mut Engine,
        slots: &[Slot],
        tokens: Vec<Vec<u32>>,
        open: &[Open],
    ) -> Result<Vec<(Vec<f32>, Vec<f32>)>> {
        let (mut n, mut sequences) = (0, Vec::with_capacity(slots.len()));
        for ((slot, tokens), open) in slots.iter().zip(tokens).zip(open) {
            let first = n;
            n += tokens.len();
            sequences.push(Sequence {
                open,
                tokens,
                logits: slot.logits,
                cancel: slot.cancel.clone(),
                first,
                windows: open.windows.to_vec(),
            });
        }
        let pass = Pass {
            weights: &self.weights,
            shape: &self.shape,
            isa: self.isa,
            fast: self.precision == Precision::Fast,
            pool: &mut engine.pool,
            scratch: &mut engine.scratch,
            sequences,
            n,
        };
        catch_unwind(AssertUnwindSafe(|| pass.run()))
            .unwrap_or_else(|_| Err(Error::Internal("a pass panicked".into())))
    }
}

impl Backend for CpuBackend {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            kind: "cpu",
            description: format!("{} kernels, {} threads", self.isa.name(), self.threads),
            exactness_class: format!(
                "cpu-{}-{}kv-{}-r{KERNEL_REVISION}",
                self.precision,
                self.shape.kv,
                self.isa.rounding()
            ),
            weight_bytes: self.weights.bytes,
        }
    }

    fn shape(&self) -> &StateShape {
        &self.shape
    }

    fn new_state(&self) -> Result<StateId> {
        lock(&self.states).create()
    }

    fn free_state(&self, state: StateId) {
        lock(&self.states).free(state);
    }

    fn len(&self, state: StateId) -> Result<usize> {
        lock(&self.states).len(state)
    }

    fn fork(&self, state: StateId) -> Result<StateId> {
        lock(&self.states).fork(state)
    }

    fn truncate(&self, state: StateId, len: usize) -> Result<usize> {
        lock(&self.states).truncate(state, len)
    }

    fn adapt(&self, state: StateId, updates: &Updates) -> Result<()> {
        self.weights.check_updates(updates)?;
        lock(&self.states).adapt(state, updates)
    }

    fn export(&self, state: StateId) -> Result<StateImage> {
        lock(&self.states).export(state)
    }

    fn import(&self, image: &StateImage) -> Result<StateId> {
        lock(&self.states).import(image)
    }

    fn parts(&self, state: StateId) -> Result<Vec<(u64, u64)>> {
        lock(&self.states).parts(state)
    }

    fn pages_copied(&self) -> u64 {
        lock(&self.states).copied
    }

    fn state_bytes(&self) -> u64 {
        lock(&self.states).bytes()
    }

    fn submit(&self, batch: Batch) -> Result<Ticket> {
        if batch.slots.is_empty() {
            return Err(Error::invalid("batch", "it has no slots"));
        }
        let tokens = batch.slots.iter().map(|s| self.tokens(&s.input)).collect::<Result<Vec<_>>>()?;
        let counts: Vec<usize> = tokens.iter().map(Vec::len).collect();
        let ids: Vec<StateId> = batch.slots.iter().map(|s| s.state).collect();
        let mut engine = lock(&self.engine);
        let open = lock(&self.states).open(&ids, &counts)?;
        let results = match self.pass(&mut engine, &batch.slots, tokens, &open) {
            Ok(results) => results,
            Err(e) => {
                lock(&self.states).abort(&open);
                return Err(e);
            }
        };
        let (logits, windows): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        lock(&self.states).commit(&open, &counts, windows);
        let wanted = batch.slots.iter().map(|s| s.logits);
        Ok(lock(&self.tickets).file(wanted.zip(logits).collect()))
    }

    fn select(&self, ticket: Ticket, slot: usize, selection: Selection<'_>) -> Result<()> {
        lock(&self.tickets).select(ticket, slot, selection)
    }

    fn poll(&self, ticket: Ticket, slot: usize) -> Result<Poll<SlotOutput>> {
        lock(&self.tickets).take(ticket, slot).map(Poll::Ready)
    }

    fn discard(&self, ticket: Ticket, slot: usize) {
        lock(&self.tickets).discard(ticket, slot);
    }
}
