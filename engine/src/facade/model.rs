//! A loaded model: immutable, shared, usable from many threads.

use super::core::Core;
use super::load::{memory_bytes, ModelPlan};
use super::session::{Session, SessionOptions};
use crate::backend::{BackendInfo, Counters, KernelTime};
use crate::chat::Chat;
use crate::constrain::{Matcher, ToolSyntax, Type};
use crate::context::{Block, Checkpoint, PrefixStats, Restore};
use crate::error::Result;
use crate::generate::{Output, Request};
use crate::schedule::SchedulerStats;
use crate::tokenizer::{Specials, Tokenizer};
use std::sync::Arc;

/// A loaded model. Cloning shares it.
#[derive(Clone)]
pub struct Model(pub(super) Arc<Core>);

/// What a loaded model says about itself.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelInfo {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, or empty.
    pub name: String,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of weights that the backend holds.
    pub weight_bytes: u64,
    /// Bytes of state a token takes.
    pub state_bytes_per_token: u64,
    /// Bytes of state a session takes besides, whatever its length: windows of convolutions.
    pub state_bytes_fixed: u64,
    /// Positions that the model was made for: the default and the largest context of a session.
    pub context_length: usize,
    /// Number of logits.
    pub vocab_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// [`ModelInfo::memory_bytes`] of the whole context.
    pub max_memory_bytes: u64,
    /// `cpu` or `gpu`.
    pub backend: String,
    /// CPU features and threads, or the adapter's name.
    pub device: String,
    /// Why it runs on the CPU although a GPU would have been preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Results are comparable bit for bit only within one class.
    pub exactness_class: String,
    /// Content-derived identity of the file; a checkpoint names it.
    pub fingerprint: String,
    /// Beginning-of-sequence id, if there is one.
    pub bos: Option<u32>,
    /// Ids that end a generation.
    pub eos: Vec<u32>,
    /// Whether the file has a chat template.
    pub has_chat_template: bool,
}

impl ModelInfo {
    pub(super) fn new(
        plan: ModelPlan,
        backend: &BackendInfo,
        fingerprint: u64,
        tokenizer: &Tokenizer,
        chat: bool,
    ) -> Self {
        ModelInfo {
            architecture: plan.architecture,
            name: plan.name,
            parameters: plan.parameters,
            file_bytes: plan.file_bytes,
            weight_bytes: backend.weight_bytes,
            state_bytes_per_token: plan.state_bytes_per_token,
            state_bytes_fixed: plan.state_bytes_fixed,
            context_length: plan.context_length,
            vocab_size: plan.vocab_size,
            layers: plan.layers,
            max_memory_bytes: memory_bytes(
                backend.weight_bytes,
                (plan.state_bytes_per_token, plan.state_bytes_fixed),
                plan.vocab_size,
                plan.context_length,
            ),
            backend: backend.kind.to_string(),
            device: backend.description.clone(),
            fallback: None,
            exactness_class: backend.exactness_class.clone(),
            fingerprint: format!("{fingerprint:016x}"),
            bos: tokenizer.bos(),
            eos: tokenizer.eos_ids().to_vec(),
            has_chat_template: chat,
        }
    }

    /// Estimate of the memory that the model takes with one session of `context` tokens, as
    /// [`ModelPlan::memory_bytes`], with what this backend and this type of keys and values take.
    pub fn memory_bytes(&self, context: usize) -> u64 {
        let state = (self.state_bytes_per_token, self.state_bytes_fixed);
        memory_bytes(self.weight_bytes, state, self.vocab_size, context)
    }
}

/// Memory that a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Of weights, in the backend's layout.
    pub weight_bytes: u64,
    /// Of all states: sessions, checkpoints in memory, kept prefixes. Shared pages count once.
    pub state_bytes: u64,
    /// Of those, bytes that kept prefixes hold, alone or together with sessions.
    pub prefix_cache_bytes: u64,
}

/// An ordered context: a checkpoint, then blocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// Where to continue from.
    pub checkpoint: Option<&'a Checkpoint>,
    /// What follows.
    pub blocks: &'a [Block],
}

impl Model {
    /// What was handed to the device since the model was loaded; zeros on the CPU.
    pub fn device_counters(&self) -> Counters {
        self.0.backend.counters()
    }

    /// Times from here on, until [`Model::kernel_times`], how long the device is `busy` and how long it is `idle` between
    /// its work; that hardly slows it down.
    ///
    /// # Errors
    /// [`crate::Error::Device`] where there is no device with a clock.
    pub fn time_device(&self) -> Result<()> {
        self.0.backend.time_kernels(false)
    }

    /// Times each of the device's kernels from here on, until [`Model::kernel_times`]; that slows it down.
    ///
    /// # Errors
    /// [`crate::Error::Device`] where the backend or the device cannot.
    pub fn time_kernels(&self) -> Result<()> {
        self.0.backend.time_kernels(true)
    }

    /// Ends [`Model::time_kernels`]: the kernels that ran since then, by name and size, the longest together first.
    ///
    /// # Errors
    /// [`crate::Error::DeviceLost`] if the device does not answer.
    pub fn kernel_times(&self) -> Result<Vec<KernelTime>> {
        self.0.backend.kernel_times()
    }

    /// What it is and where it runs.
    pub fn info(&self) -> &ModelInfo {
        &self.0.info
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.0.tokenizer
    }

    /// An empty session.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        let capacity = self.0.capacity(options.context)?;
        Session::new(self.clone(), self.0.sequence(capacity)?, None, None)
    }

    /// A session that continues from a checkpoint; what was done is in [`Session::restored`].
    pub fn restore(&self, checkpoint: &Checkpoint, policy: Restore) -> Result<Session> {
        self.restore_with(checkpoint, policy, SessionOptions::default())
    }

    /// The same with a context of the caller's choice.
    pub fn restore_with(
        &self,
        checkpoint: &Checkpoint,
        policy: Restore,
        options: SessionOptions,
    ) -> Result<Session> {
        let core = &self.0;
        let capacity = match options.context {
            Some(n) => core.capacity(Some(n))?,
            // What the bytes say may not exceed what the model was made for.
            None => checkpoint.capacity().min(core.info.context_length),
        };
        let (seq, resume, how) = checkpoint.restore(
            &core.backend,
            &core.identity,
            &core.adapters,
            policy,
            capacity,
            core.info.vocab_size,
        )?;
        Session::new(self.clone(), seq, resume, Some(how))
    }

    /// An ordered context in, a value out. Nothing is kept but what the caller checkpoints.
    pub fn generate(&self, context: Context<'_>, request: &Request) -> Result<Output> {
        let session = match context.checkpoint {
            Some(checkpoint) => self.restore(checkpoint, Restore::Exact)?,
            None => self.session(SessionOptions::default())?,
        };
        session.into_generation_after(context.blocks, request)?.finish()
    }

    /// How this model writes calls of tools.
    pub fn tool_syntax(&self) -> ToolSyntax {
        self.0.tool_syntax()
    }

    /// What follows a value of the type token by token, by hand; `None` for unbounded text, which needs no mask.
    ///
    /// # Errors
    /// [`crate::Error::Type`] if the type is too large for this vocabulary.
    pub fn matcher(&self, ty: &Type) -> Result<Option<Matcher>> {
        self.0.matcher(ty)
    }

    /// Ids of blocks as they would start a context.
    pub fn tokenize(&self, blocks: &[Block]) -> Result<Vec<u32>> {
        self.0.encoder(blocks)?.context(blocks)
    }

    /// Number of tokens of blocks as they would start a context.
    pub fn count_tokens(&self, blocks: &[Block]) -> Result<usize> {
        Ok(self.tokenize(blocks)?.len())
    }

    /// Ids of a text, without BOS.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        self.0.tokenizer.encode(text, specials)
    }

    /// Text of ids; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], keep_control: bool) -> String {
        self.0.tokenizer.decode(ids, keep_control)
    }

    /// A conversation as text, byte for byte transformers' `apply_chat_template`.
    pub fn render_chat(&self, chat: &Chat) -> Result<String> {
        // Trusted, so that no literal is marked.
        let chat = Chat { trusted: true, ..chat.clone() };
        let block = [Block::Chat(chat.clone())];
        Ok(self.0.encoder(&block)?.render(&chat)?.text)
    }

    /// Passes over the weights, and how much work shared them.
    pub fn stats(&self) -> SchedulerStats {
        self.0.scheduler.stats()
    }

    /// What the reuse of earlier contexts' states does and takes.
    pub fn prefix_stats(&self) -> PrefixStats {
        self.0.prefixes.stats()
    }

    /// Sets how many bytes of state are kept of earlier contexts; 0 drops them and turns the reuse off.
    pub fn set_prefix_cache(&self, bytes: u64) {
        self.0.prefixes.set_budget(bytes);
    }

    /// Drops the kept states of earlier contexts.
    pub fn clear_prefix_cache(&self) {
        self.0.prefixes.clear();
    }

    /// What the model takes now.
    pub fn memory(&self) -> Memory {
        Memory {
            weight_bytes: self.0.info.weight_bytes,
            state_bytes: self.0.backend.state_bytes(),
            prefix_cache_bytes: self.0.prefixes.stats().bytes,
        }
    }

    /// Pages of state that were copied since the model was loaded, because a session wrote to one that it
    /// shared. A fork copies none; it or its source copies at most one, with its next write.
    pub fn pages_copied(&self) -> u64 {
        self.0.backend.pages_copied()
    }

    /// Bytes of state of all sessions, checkpoints and kept prefixes of this model, shared pages counted once.
    pub fn state_bytes(&self) -> u64 {
        self.0.backend.state_bytes()
    }
}
