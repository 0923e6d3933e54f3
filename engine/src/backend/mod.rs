//! The backend interface: submit a pass, select its tokens, poll the result.
//!
//! Submitting a forward pass and choosing its token are two acts, so that a mask can be computed meanwhile
//! and the next pass can be queued before the last token is read back. A batch from the start: branches,
//! prefill chunks and many sessions share one pass over the weights. Nothing here blocks on a device.

pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
mod lowrank;
mod precision;
mod sampler;
mod state;

pub use lean_kernels::kv::{KvType, Plane};
pub use lowrank::{LowRank, LowRankSet, Updates};
pub use precision::Precision;
pub use sampler::{sample, SamplerParams};
pub use state::{LayerState, StateImage, StateShape, PAGE_TOKENS};

use crate::cancel::CancelToken;
use crate::error::Result;
use std::task::Poll;
use std::time::Duration;

/// A device that has not answered for this long is taken for hung; no pass on real hardware comes near it.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// A sequence's state (KV pages and convolution windows), owned by the backend that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u64);

/// A submitted pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Where a slot's input ids come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Ids known to the host, at least one.
    Tokens(Vec<u32>),
    /// The token that `select` will choose (or chose) for a slot of an earlier ticket.
    Sampled(Ticket, usize),
}

/// Which logits a slot wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// None: a prefill chunk that is not the last.
    None,
    /// Of the last input token, kept for `select`, not read back unless `read` is set.
    Last {
        /// Copy them to the host: `SlotOutput::logits` has `[vocab]`.
        read: bool,
    },
    /// Of every input token, read back: `[tokens][vocab]`.
    All,
}

/// One sequence's share of a batch. The tokens go at the positions that follow the state's length.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The state to read and extend; a state occurs at most once in a batch.
    pub state: StateId,
    /// What to run.
    pub input: Input,
    /// What is wanted of it.
    pub logits: Logits,
    /// Looked at between layers. One cancelled slot ends the whole submission with `Cancelled` and
    /// leaves every state as it was.
    pub cancel: CancelToken,
}

/// Slots that share one pass over the weights.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The slots, in the order of the outputs.
    pub slots: Vec<Slot>,
}

/// An exact set of allowed tokens: bit `id % 32` of word `id / 32`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// `ceil(vocab / 32)` words.
    pub words: Vec<u32>,
}

impl Mask {
    /// Whether a token is allowed; ids beyond the mask are not.
    pub fn allows(&self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|w| w >> (id % 32) & 1 == 1)
    }
}

/// How one token is chosen from a slot's logits.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// Temperature, truncation, penalties.
    pub params: &'a SamplerParams,
    /// Tokens that the repetition penalty looks at, oldest first.
    pub history: &'a [u32],
    /// Uniform in `[0, 2^32)`, drawn by the caller from the request's seed; unused when greedy.
    pub random: u32,
    /// Allowed tokens; `None` allows all.
    pub mask: Option<&'a Mask>,
}

/// What a slot produced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotOutput {
    /// The selected token, if `select` was called.
    pub token: Option<u32>,
    /// Logits that were asked for: `[vocab]` or `[tokens][vocab]`.
    pub logits: Option<Vec<f32>>,
}

/// Work that was handed to a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Passes over the weights.
    pub passes: u64,
    /// Submissions to the queue.
    pub submissions: u64,
    /// Kernels that were started.
    pub dispatches: u64,
    /// Nanoseconds in which the host prepared and queued passes.
    pub host_nanos: u64,
}

/// How long a kernel took on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTime {
    /// Its name.
    pub kernel: String,
    /// Workgroups of a dispatch, in x, y and z; those of products follow from the rows of the matrix.
    pub workgroups: [u32; 3],
    /// How often it was started.
    pub dispatches: u64,
    /// Seconds that it ran, all dispatches together.
    pub seconds: f64,
}

/// What a backend says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendInfo {
    /// `cpu` or `gpu`.
    pub kind: &'static str,
    /// For people: CPU features and threads, or adapter name.
    pub description: String,
    /// Results are comparable bit for bit only within one class; see the README's ARCHITECTURE section.
    pub exactness_class: String,
    /// Bytes of weights held.
    pub weight_bytes: u64,
}

/// A model's weights on a device, and the states of its sequences. Object-safe.
pub trait Backend: Send + Sync {
    /// Kind, description, exactness class.
    fn info(&self) -> BackendInfo;
    /// The state layout that `export` and `import` speak.
    fn shape(&self) -> &StateShape;
    /// An empty state. Pages are allocated as it grows.
    fn new_state(&self) -> Result<StateId>;
    /// Frees a state; unknown ids are ignored.
    fn free_state(&self, state: StateId);
    /// Tokens in a state.
    fn len(&self, state: StateId) -> Result<usize>;
    /// A second state with the same content, sharing pages until either writes. O(pages), copies no page.
    fn fork(&self, state: StateId) -> Result<StateId>;
    /// Shortens a state to at most `len` tokens and returns the length reached. Plans without windows reach
    /// `len`; with convolution windows the cut falls back to a page boundary and the caller runs the rest again.
    fn truncate(&self, state: StateId, len: usize) -> Result<usize>;
    /// What passes over this state add to the model's weights from now on; forks keep it. The caller sees to it
    /// that what the state already holds was computed with the same.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) where the backend computes no updates; `InvalidArgument` for one
    /// that does not fit its matrix.
    fn adapt(&self, state: StateId, updates: &Updates) -> Result<()> {
        let _ = state;
        match updates.is_empty() {
            true => Ok(()),
            false => Err(crate::error::Error::Device {
                reason: format!("the {} backend does not run adapters yet; use the CPU", self.info().kind),
            }),
        }
    }
    /// A host copy of a state; on the CPU it shares pages.
    fn export(&self, state: StateId) -> Result<StateImage>;
    /// A state from a host copy of the same shape.
    fn import(&self, image: &StateImage) -> Result<StateId>;
    /// A state's pages and windows, those that it shares included: a number that two states' shared pages have
    /// in common for as long as either lives, and bytes.
    fn parts(&self, state: StateId) -> Result<Vec<(u64, u64)>>;
    /// Pages that were copied because their writer shared them. A fork copies none; it or its source copies
    /// at most one, with its next write.
    fn pages_copied(&self) -> u64;
    /// Bytes of all live states, shared pages counted once.
    fn state_bytes(&self) -> u64;
    /// Tokens that a pass should take at most: a longer prefill is cut into several.
    fn pass_tokens(&self) -> usize {
        64
    }
    /// Whether a pass can be queued before the token that it reads is known here ([`Input::Sampled`]), and that is
    /// faster.
    fn chooses_ahead(&self) -> bool {
        false
    }
    /// What was handed to the device since the backend was made; zeros where there is none.
    fn counters(&self) -> Counters {
        Counters::default()
    }
    /// Times from here on, until [`Backend::kernel_times`]: `each` kernel, which slows work down, or else how long the device
    /// is `busy` and `idle`. [`Error::Device`] where the backend cannot.
    fn time_kernels(&self, each: bool) -> Result<()> {
        let _ = each;
        Err(crate::error::Error::Device { reason: "only a GPU times its kernels".into() })
    }
    /// For tests: loses the device, where there is one.
    fn lose_device(&self) {}
    /// Ends [`Backend::time_kernels`]: what ran since then, the longest together first.
    fn kernel_times(&self) -> Result<Vec<KernelTime>> {
        Ok(Vec::new())
    }
    /// Queues a pass. On success every state has grown by its slot's tokens; on error none has.
    fn submit(&self, batch: Batch) -> Result<Ticket>;
    /// Chooses a slot's token from its last logits. At most once a slot.
    fn select(&self, ticket: Ticket, slot: usize, selection: Selection<'_>) -> Result<()>;
    /// A slot's result, once it is there. Taking it ends the slot; the last one ends the ticket.
    fn poll(&self, ticket: Ticket, slot: usize) -> Result<Poll<SlotOutput>>;
    /// Drops a ticket's slot unread.
    fn discard(&self, ticket: Ticket, slot: usize);
}

/// Reads weights one tensor at a time, so that no second copy of the model is ever held.
pub trait WeightSource {
    /// The bytes of the plan's tensor, `rows * cols / block_elems * block_bytes` of them. Borrowed when the
    /// source is mapped or in memory.
    fn read(&mut self, spec: &crate::model::plan::TensorSpec) -> Result<std::borrow::Cow<'_, [u8]>>;
}

/// Called while weights load with bytes done and bytes in total; an error stops the load and is returned.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;
