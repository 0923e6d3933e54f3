//! Running pending tokens in chunks.

use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::context::Sequence;
use crate::error::{Error, Result};
use crate::schedule::{Done, Job, Scheduler, MAX_BATCH_TOKENS};
use web_time::Instant;

/// What one pass did for a sequence.
pub(crate) enum Advance {
    /// A chunk ran; more tokens are pending.
    Chunk,
    /// The last pending token ran; its logits wait where they were asked for.
    Last(Done),
}

/// Runs the next chunk of `seq.tokens[..end]`; with the last one, `logits` are computed. There must be
/// pending tokens.
pub(crate) fn advance(
    seq: &Sequence,
    end: usize,
    logits: Logits,
    scheduler: &Scheduler,
    cancel: &CancelToken,
    deadline: Option<Instant>,
) -> Result<Advance> {
    cancel.check()?;
    if deadline.is_some_and(|d| Instant::now() >= d) {
        return Err(Error::Timeout);
    }
    let filled = seq.filled()?;
    let chunk_end = end.min(filled + MAX_BATCH_TOKENS);
    let tokens = seq.tokens.get(filled..chunk_end).filter(|t| !t.is_empty());
    let tokens = tokens.ok_or_else(|| Error::Internal("no token is pending".into()))?.to_vec();
    let last = chunk_end == end;
    let job = Job {
        state: seq.state(),
        tokens,
        logits: if last { logits } else { Logits::None },
        cancel: cancel.clone(),
    };
    let done = scheduler.run_job(job)?;
    if last {
        Ok(Advance::Last(done))
    } else {
        scheduler.discard(done);
        Ok(Advance::Chunk)
    }
}
