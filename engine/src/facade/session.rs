//! One sequence: appended to, generated from, forked, checkpointed.

use super::generation::Generation;
use super::model::Model;
use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::constrain::under;
use crate::context::{Block, Checkpoint, Restored, Sequence};
use crate::error::{Error, Result};
use crate::generate::{advance, Advance, Request, Resume, Run};
use crate::schedule::{Patience, MAX_BATCH_TOKENS};
use std::ops::Range;

/// Choices made when a session is opened.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Most tokens the session may hold; `None` is the model's context length. State is allocated as it grows.
    pub context: Option<usize>,
}

/// One sequence. `Send`, used by one thread at a time. A call that fails or is cancelled leaves it exactly
/// as it was before.
pub struct Session {
    pub(super) model: Model,
    pub(super) seq: Sequence,
    /// A value in progress, if this session came from a checkpoint taken inside one.
    pub(super) suspended: Option<Resume>,
    restored: Option<Restored>,
}

impl Session {
    pub(super) fn new(
        model: Model,
        seq: Sequence,
        resume: Option<Vec<u8>>,
        restored: Option<Restored>,
    ) -> Result<Self> {
        let suspended = resume.as_deref().map(Resume::from_bytes).transpose()?;
        Ok(Session { model, seq, suspended, restored })
    }

    /// The model it belongs to.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Ids of the sequence.
    pub fn tokens(&self) -> &[u32] {
        &self.seq.tokens
    }

    /// Most tokens it may hold.
    pub fn capacity(&self) -> usize {
        self.seq.capacity
    }

    /// What the restore did that this session came from.
    pub fn restored(&self) -> Option<Restored> {
        self.restored
    }

    /// Adds blocks and runs all of their tokens but the last, which runs with the next step.
    pub fn append(&mut self, blocks: &[Block]) -> Result<()> {
        self.append_with(blocks, &CancelToken::new(), |_, _| {})
    }

    /// The same, cancellable, with progress in tokens (done, total).
    pub fn append_with(
        &mut self,
        blocks: &[Block],
        cancel: &CancelToken,
        progress: impl FnMut(usize, usize),
    ) -> Result<()> {
        let seq = self.begin(self.with_blocks(blocks)?)?;
        self.replace(seq, cancel, progress)
    }

    /// This session's tokens and those of more blocks.
    pub(super) fn with_blocks(&self, blocks: &[Block]) -> Result<Vec<u32>> {
        let encoder = self.model.0.encoder(blocks)?;
        let ids = match self.seq.tokens.is_empty() {
            true => encoder.context(blocks)?,
            false => encoder.continuation(blocks)?,
        };
        let mut tokens = self.seq.tokens.clone();
        tokens.extend(ids);
        Ok(tokens)
    }

    /// Makes the context exactly these blocks. The longest common prefix with the present context keeps its
    /// state; returns the number of tokens that did not have to be run again.
    pub fn set_context(&mut self, blocks: &[Block]) -> Result<usize> {
        self.set_context_with(blocks, &CancelToken::new(), |_, _| {})
    }

    /// The same, cancellable, with progress in tokens (done, total).
    pub fn set_context_with(
        &mut self,
        blocks: &[Block],
        cancel: &CancelToken,
        progress: impl FnMut(usize, usize),
    ) -> Result<usize> {
        let tokens = self.model.0.encoder(blocks)?.context(blocks)?;
        let common = self.seq.tokens.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        let mut seq = self.seq.fork()?;
        // The last token stays pending, since its logits are wanted.
        seq.truncate(common.min(tokens.len() - 1))?;
        let seq = self.extend(seq, tokens)?;
        let reused = seq.filled()?;
        self.replace(seq, cancel, progress)?;
        Ok(reused)
    }

    /// Runs `seq` up to the last of its tokens and makes it this session's sequence.
    pub(super) fn replace(
        &mut self,
        seq: Sequence,
        cancel: &CancelToken,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<()> {
        let (first, end) = (seq.filled()?, seq.tokens.len() - 1);
        let patience = Patience { cancel, deadline: None };
        let mut filled = first;
        while filled < end {
            if let Advance::Last(done) = advance(&seq, end, Logits::None, &self.model.0.scheduler, patience)?
            {
                self.model.0.scheduler.discard(done);
            }
            filled = seq.filled()?;
            progress(filled - first, end - first);
        }
        cancel.check()?;
        self.seq = seq;
        self.suspended = None;
        self.remember();
        Ok(())
    }

    /// A sequence for `tokens`, which begin with this session's.
    pub(super) fn begin(&self, tokens: Vec<u32>) -> Result<Sequence> {
        self.extend(self.seq.fork()?, tokens)
    }

    /// Makes a sequence's tokens `tokens`, which begin with what its state holds. If an earlier context has the
    /// state of more of them, that is taken.
    pub(super) fn extend(&self, mut seq: Sequence, tokens: Vec<u32>) -> Result<Sequence> {
        if tokens.len() > seq.capacity {
            return Err(Error::ContextOverflow { needed: tokens.len(), available: seq.capacity });
        }
        let (core, capacity) = (&self.model.0, seq.capacity);
        if seq.computed_here() {
            if let Some(found) = core.prefixes.find(seq.prefix_key(), &tokens, seq.filled()?) {
                seq = found;
                seq.capacity = capacity;
            }
        }
        seq.tokens = tokens;
        Ok(seq)
    }

    /// Keeps the state for later contexts that begin alike.
    pub(super) fn remember(&self) {
        self.model.0.prefixes.insert(&self.seq);
    }

    /// Starts a value after the present context. Nothing of it is part of the session until it is finished.
    pub fn generate(&mut self, request: &Request) -> Result<Generation<&mut Session>> {
        let run = self.start(request)?;
        Ok(Generation::new(self, run))
    }

    /// The same, owning the session; [`Generation::finish`] and [`Generation::abandon`] give it back.
    pub fn into_generation(self, request: &Request) -> Result<Generation<Session>, (Session, Error)> {
        match self.start(request) {
            Ok(run) => Ok(Generation::new(self, run)),
            Err(error) => Err((self, error)),
        }
    }

    /// The same after further blocks, which run as part of the generation.
    pub(super) fn into_generation_after(
        self,
        blocks: &[Block],
        request: &Request,
    ) -> Result<Generation<Session>> {
        let run = self.start_after(blocks, request)?;
        Ok(Generation::new(self, run))
    }

    fn start(&self, request: &Request) -> Result<Run> {
        self.start_after(&[], request)
    }

    fn start_after(&self, blocks: &[Block], request: &Request) -> Result<Run> {
        let core = &self.model.0;
        under(&request.cancel, request.deadline, || {
            let request = core.resolved(request)?;
            request.cancel.check()?;
            let seq = self.begin(self.with_blocks(blocks)?)?;
            Run::new(seq, request, |ty| core.matcher(ty))
        })
    }

    /// Whether this session came from a checkpoint taken inside a value that can be continued.
    pub fn can_resume(&self) -> bool {
        self.suspended.is_some()
    }

    /// Continues the value that the checkpoint was taken in: its remaining events, and the whole value at
    /// the end. `cancel` replaces the original request's.
    pub fn resume(&mut self, cancel: CancelToken) -> Result<Generation<&mut Session>> {
        let run = self.continue_run(cancel)?;
        Ok(Generation::new(self, run))
    }

    /// The same, owning the session.
    pub fn into_resumed(self, cancel: CancelToken) -> Result<Generation<Session>, (Session, Error)> {
        match self.continue_run(cancel) {
            Ok(run) => Ok(Generation::new(self, run)),
            Err(error) => Err((self, error)),
        }
    }

    fn continue_run(&self, cancel: CancelToken) -> Result<Run> {
        let resume = self.suspended.clone().ok_or_else(|| {
            Error::invalid("resume", "this session's checkpoint was not taken inside a value; use generate")
        })?;
        let request = Request::from_parts_within(resume.ty.clone(), resume.options.clone(), cancel)?;
        let core = &self.model.0;
        Run::resume(&core.run_deps(), self.seq.fork()?, request, resume, |ty| core.matcher(ty))
    }

    /// A point to continue from. Shares pages with the session; takes microseconds at any length.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let resume = self.suspended.as_ref().map(Resume::to_bytes).transpose()?;
        Ok(Checkpoint::live(self.seq.fork()?, self.model.0.identity.clone(), resume))
    }

    /// A second session with the same content; shares pages until either writes.
    pub fn fork(&self) -> Result<Session> {
        Ok(Session {
            model: self.model.clone(),
            seq: self.seq.fork()?,
            suspended: self.suspended.clone(),
            restored: self.restored,
        })
    }

    /// Keeps the first `len` tokens.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        if len > self.seq.tokens.len() {
            let tokens = self.seq.tokens.len();
            return Err(Error::invalid("len", format!("{len}, but the session has {tokens} tokens")));
        }
        let mut seq = self.seq.fork()?;
        seq.truncate(len)?;
        self.seq = seq;
        self.suspended = None;
        Ok(())
    }

    /// Removes the tokens `range` and computes what follows them again, at its new place. Returns how many tokens
    /// were run. A range beyond the session's tokens is an error that says how many there are, and changes
    /// nothing.
    pub fn drop_range(&mut self, range: Range<usize>) -> Result<usize> {
        self.drop_range_with(range, &CancelToken::new(), |_, _| {})
    }

    /// The same, cancellable, with progress in tokens (done, total).
    pub fn drop_range_with(
        &mut self,
        range: Range<usize>,
        cancel: &CancelToken,
        progress: impl FnMut(usize, usize),
    ) -> Result<usize> {
        let old = &self.seq.tokens;
        let whole = old.get(range.clone()).map(|_| (&old[..range.start], &old[range.end..]));
        let Some((kept, moved)) = whole else {
            let reason = format!("{range:?}, but the session has {} tokens", old.len());
            return Err(Error::invalid("range", reason));
        };
        if range.is_empty() || range.end == old.len() {
            return self.truncate(old.len() - range.len()).map(|()| 0);
        }
        let tokens = [kept, moved].concat();
        let mut seq = self.seq.fork()?;
        seq.truncate(range.start)?;
        let seq = self.extend(seq, tokens)?;
        let pending = seq.tokens.len() - 1 - seq.filled()?;
        self.replace(seq, cancel, progress)?;
        Ok(pending)
    }

    /// The token-level door: appends ids, runs everything pending and returns the last token's logits, `[vocab]`.
    pub fn forward(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let all = self.forward_rows(ids, Logits::Last { read: true })?;
        all.into_iter().last().ok_or_else(|| Error::Internal("no logits came back".into()))
    }

    /// The same with the logits of every token that ran, `[vocab]` each.
    pub fn forward_all(&mut self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.forward_rows(ids, Logits::All)
    }

    fn forward_rows(&mut self, ids: &[u32], logits: Logits) -> Result<Vec<Vec<f32>>> {
        let encoder = self.model.0.encoder(&[])?;
        let ids = encoder.continuation(&[Block::Tokens(ids.to_vec())])?;
        let (before, filled) = (self.seq.tokens.len(), self.seq.filled()?);
        let end = before + ids.len();
        if end > self.seq.capacity {
            return Err(Error::ContextOverflow { needed: end, available: self.seq.capacity });
        }
        if filled == end {
            return Err(Error::invalid("ids", "no token is pending, so there is nothing to run"));
        }
        let rows = if end - filled > MAX_BATCH_TOKENS {
            let mut seq = self.seq.fork()?;
            seq.tokens.extend(ids);
            let rows = self.run_rows(&seq, logits)?;
            self.seq = seq;
            rows
        } else {
            // A step of a token-level loop: without a fork, whose source would make its first write a copy.
            self.seq.tokens.extend(ids);
            let result = self.run_rows(&self.seq, logits);
            if result.is_err() {
                self.take_back(before);
            }
            result?
        };
        self.suspended = None;
        Ok(rows)
    }

    /// Takes back tokens of which some may have run.
    fn take_back(&mut self, len: usize) {
        // A state that cannot be cut is lost with its device; the tokens are right either way.
        let _ = self.seq.truncate(len);
        self.seq.tokens.truncate(len);
    }

    /// Runs what is pending in a sequence.
    fn run_rows(&self, seq: &Sequence, logits: Logits) -> Result<Vec<Vec<f32>>> {
        let (scheduler, cancel) = (&self.model.0.scheduler, CancelToken::new());
        let patience = Patience { cancel: &cancel, deadline: None };
        let (vocab, end) = (self.model.0.info.vocab_size, seq.tokens.len());
        let mut rows = Vec::new();
        loop {
            // With `All` every chunk returns its rows, so each is asked for as if it were the last.
            let to = match logits {
                Logits::All => end.min(seq.filled()? + MAX_BATCH_TOKENS),
                _ => end,
            };
            if let Advance::Last(done) = advance(seq, to, logits, scheduler, patience)? {
                let output = scheduler.output(done, patience)?;
                rows.extend(output.logits.unwrap_or_default().chunks_exact(vocab).map(<[f32]>::to_vec));
                if to == end {
                    return Ok(rows);
                }
            }
        }
    }
}
