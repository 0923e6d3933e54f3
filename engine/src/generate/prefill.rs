//! Running pending tokens in chunks.

use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::context::Sequence;
use crate::error::{Error, Result};
use crate::schedule::{Done, Job, Patience, Scheduler};

/// What one pass did for a sequence.
pub(crate) enum Advance {
    /// A chunk ran; more tokens are pending.
    Chunk,
    /// The last pending token ran; its logits wait where they were asked for.
    Last(Done),
}

/// The next chunk of `seq.tokens[..end]`, of `most` tokens, and whether it is the last; only with that `logits` are computed.
/// There must be pending tokens.
pub(crate) fn next_job(
    seq: &Sequence,
    end: usize,
    logits: Logits,
    most: usize,
    cancel: &CancelToken,
) -> Result<(Job, bool)> {
    let filled = seq.filled()?;
    let chunk_end = end.min(filled + most);
    let tokens = seq.tokens.get(filled..chunk_end).filter(|t| !t.is_empty());
    let tokens = tokens.ok_or_else(|| Error::Internal("no token is pending".into()))?.to_vec();
    let last = chunk_end == end;
    let logits = if last { logits } else { Logits::None };
    Ok((Job { state: seq.state(), tokens, logits, cancel: cancel.clone() }, last))
}

/// Runs the next chunk of `seq.tokens[..end]`; with the last one, `logits` are computed. There must be
/// pending tokens.
pub(crate) fn advance(
    seq: &Sequence,
    end: usize,
    logits: Logits,
    scheduler: &Scheduler,
    patience: Patience<'_>,
) -> Result<Advance> {
    patience.check()?;
    let (job, last) = next_job(seq, end, logits, scheduler.pass_tokens(), patience.cancel)?;
    let done = scheduler.run_job(job, patience.deadline)?;
    if last {
        Ok(Advance::Last(done))
    } else {
        scheduler.discard(done);
        Ok(Advance::Chunk)
    }
}
