//! What a model has done and what it takes.

use crate::error::lean_error;
use crate::handle;
use crate::model::lean_model;
use crate::options::{self, sized};
use crate::status::lean_status;
use lean_engine::Model;
use std::mem::{offset_of, size_of};

/// Counts since the model was loaded, and memory now.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_stats {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Passes over the weights.
    pub passes: u64,
    /// Sequences in those passes; more of them than passes means that work shared passes.
    pub slots: u64,
    /// Tokens in those passes.
    pub tokens: u64,
    /// Pages of state that were copied because a session wrote to one that it shared. Forking copies none.
    pub pages_copied: u64,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes of all states (sessions, checkpoints in memory, kept prefixes), shared pages counted once.
    pub state_bytes: u64,
    /// Contexts that were looked up among the kept states of earlier ones.
    pub prefix_lookups: u64,
    /// Of those, contexts that found more than their session had.
    pub prefix_hits: u64,
    /// Tokens that did not have to run because of them.
    pub prefix_tokens_reused: u64,
    /// States kept now.
    pub prefix_entries: u64,
    /// Their bytes, shared pages counted once.
    pub prefix_bytes: u64,
    /// Bytes that they may take; 0 is off.
    pub prefix_budget: u64,
    /// States that were dropped to stay within that.
    pub prefix_evictions: u64,
}

sized!(lean_stats {
    reserved,
    passes,
    slots,
    tokens,
    pages_copied,
    weight_bytes,
    state_bytes,
    prefix_lookups,
    prefix_hits,
    prefix_tokens_reused,
    prefix_entries,
    prefix_bytes,
    prefix_budget,
    prefix_evictions
});

impl lean_stats {
    fn defaults() -> Self {
        // SAFETY: plain numbers.
        let zero: Self = unsafe { std::mem::zeroed() };
        lean_stats { struct_size: size_of::<Self>() as u32, ..zero }
    }

    fn of(model: &Model) -> Self {
        let (passes, prefix, memory) = (model.stats(), model.prefix_stats(), model.memory());
        lean_stats {
            passes: passes.passes,
            slots: passes.slots,
            tokens: passes.tokens,
            pages_copied: model.pages_copied(),
            weight_bytes: memory.weight_bytes,
            state_bytes: memory.state_bytes,
            prefix_lookups: prefix.lookups,
            prefix_hits: prefix.hits,
            prefix_tokens_reused: prefix.tokens_reused,
            prefix_entries: prefix.entries,
            prefix_bytes: prefix.bytes,
            prefix_budget: prefix.budget,
            prefix_evictions: prefix.evictions,
            ..Self::defaults()
        }
    }
}

/// Prepares the struct. `size` is `sizeof *stats`.
#[no_mangle]
pub unsafe extern "C" fn lean_stats_init(stats: *mut lean_stats, size: usize) {
    // SAFETY: the header's rules.
    unsafe { options::init(stats, size) }
}

/// What the model has done since it was loaded, and the memory it takes. Call `lean_stats_init` on `stats`
/// first, once.
#[no_mangle]
pub unsafe extern "C" fn lean_model_stats(
    model: *const lean_model,
    stats: *mut lean_stats,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], { options::fill("stats", stats, lean_stats::of(&handle::get(model)?.model)) })
}

/// Sets how many bytes of state the model keeps of earlier contexts, so that one that begins alike is not
/// computed again from its beginning. 0 drops what is kept and turns it off. Results are the same either way.
#[no_mangle]
pub unsafe extern "C" fn lean_model_set_prefix_cache(
    model: *const lean_model,
    bytes: u64,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        handle::get(model)?.model.set_prefix_cache(bytes);
        Ok(())
    })
}
