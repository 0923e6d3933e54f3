//! Several values that continue one context, decoded as one batch.

use super::generation::Generation;
use super::model::Model;
use super::session::{Session, SessionOptions};
use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::context::{Block, Checkpoint, Restore, Sequence};
use crate::error::{Error, Result};
use crate::generate::{advance, Advance, Branch, Request, Run};
use crate::schedule::Patience;

/// One of several values that continue the same context: blocks of its own, and what to generate after them.
#[derive(Debug, Clone, Copy)]
pub struct BranchRequest<'a> {
    /// What follows the shared context; may be empty.
    pub blocks: &'a [Block],
    /// Type, budget, sampler, seed, cancellation, deadline.
    pub request: &'a Request,
}

impl Model {
    /// `branches.len()` values that continue a checkpoint (or an empty context), decoded as one batch: a pass
    /// over the weights serves all of them. On the CPU each is bit for bit what it would be alone. Each is
    /// streamed, cancelled, checkpointed and finished by itself; asking one of them for its next event takes a
    /// step in all, and the others' events wait in them.
    ///
    /// What all contexts have in common is computed once, in this call.
    ///
    /// # Errors
    /// Those of [`Session::generate`] for any of the branches; then nothing was started.
    pub fn generate_many(
        &self,
        checkpoint: Option<&Checkpoint>,
        branches: &[BranchRequest<'_>],
    ) -> Result<Vec<Generation<Session>>> {
        match checkpoint {
            Some(checkpoint) => self.restore(checkpoint, Restore::Exact)?.generate_many(branches),
            None => self.session(SessionOptions::default())?.generate_many(branches),
        }
    }
}

impl Session {
    /// The same after this session's context. The session itself stays as it is: every branch has a fork of it,
    /// which [`Generation::finish_with_session`] hands out.
    pub fn generate_many(&self, branches: &[BranchRequest<'_>]) -> Result<Vec<Generation<Session>>> {
        let core = &self.model.0;
        let requests = branches.iter().map(|b| core.resolved(b.request)).collect::<Result<Vec<_>>>()?;
        let mut contexts = Vec::with_capacity(branches.len());
        let mut matchers = Vec::with_capacity(branches.len());
        for (branch, request) in branches.iter().zip(&requests) {
            let tokens = self.with_blocks(branch.blocks)?;
            Run::check(request, tokens.len(), self.seq.capacity)?;
            matchers.push(core.matcher(&request.ty)?);
            contexts.push(tokens);
        }
        let shared = self.fill_shared(&contexts, branches)?;
        let mut runs = Vec::with_capacity(branches.len());
        for ((request, tokens), matcher) in requests.into_iter().zip(contexts).zip(matchers) {
            let seq = self.extend(shared.fork()?, tokens)?;
            runs.push(Run::new(seq, request, |_| Ok(matcher))?);
        }
        let sessions = (0..runs.len()).map(|_| self.fork()).collect::<Result<Vec<_>>>()?;
        let branches = Branch::group(runs, &core.scheduler);
        Ok(sessions.into_iter().zip(branches).map(|(session, run)| Generation::of(session, run)).collect())
    }

    /// A sequence that holds what several contexts begin with, computed. At least one token of each is left, for
    /// its logits.
    fn fill_shared(&self, contexts: &[Vec<u32>], branches: &[BranchRequest<'_>]) -> Result<Sequence> {
        let seq = self.seq.fork()?;
        let [first, others @ ..] = contexts else { return Ok(seq) };
        let common = others
            .iter()
            .fold(first.len(), |n, other| first[..n].iter().zip(other).take_while(|(a, b)| a == b).count());
        let shortest = contexts.iter().map(Vec::len).min().unwrap_or(0);
        let end = common.min(shortest.saturating_sub(1));
        if others.is_empty() || end <= seq.tokens.len() {
            // Nothing beyond the session's own tokens is shared; what is pending there runs in the branches.
            return Ok(seq);
        }
        // One more than is computed, as if it were the token whose logits are wanted.
        let mut seq = self.begin(first[..=end].to_vec())?;
        seq.tokens.truncate(end);
        // Given up only once no branch wants it any more.
        let deadline = branches.iter().map(|b| b.request.deadline).max().flatten();
        let deadline = deadline.filter(|_| branches.iter().all(|b| b.request.deadline.is_some()));
        let (scheduler, cancel) = (&self.model.0.scheduler, CancelToken::new());
        while seq.filled()? < end {
            if branches.iter().all(|b| b.request.cancel.is_cancelled()) {
                return Err(Error::Cancelled);
            }
            let patience = Patience { cancel: &cancel, deadline };
            if let Advance::Last(done) = advance(&seq, end, Logits::None, scheduler, patience)? {
                scheduler.discard(done);
            }
        }
        self.model.0.prefixes.insert(&seq);
        Ok(seq)
    }
}
