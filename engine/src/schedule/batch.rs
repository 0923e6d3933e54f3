//! Which waiting jobs share the next pass.

use super::{Job, JobId};
use crate::backend::Logits;
use std::collections::VecDeque;

/// Tokens of a job that counts as a decode step: one token and a short forced run.
const SHORT: usize = 8;

/// Tokens of a pass that decode steps leave to a prefill that waits, so that neither starves the other.
const PREFILL_SHARE: usize = 16;

/// A job in the queue.
pub(super) struct Queued {
    pub id: JobId,
    pub job: Job,
    /// Runs in a batch of its own, to tell whose fault a failure is.
    pub alone: bool,
}

/// A job, or the first tokens of one, in the next pass.
pub(super) struct Taken {
    pub queued: Queued,
    /// What did not fit: the tokens and the logits wanted of the last of them.
    pub rest: Option<(Vec<u32>, Logits)>,
}

impl Taken {
    fn whole(queued: Queued) -> Self {
        Taken { queued, rest: None }
    }

    fn split(mut queued: Queued, at: usize) -> Self {
        let rest = queued.job.tokens.split_off(at);
        let logits = std::mem::replace(&mut queued.job.logits, Logits::None);
        Taken { queued, rest: Some((rest, logits)) }
    }

    /// The job as it was before it was split.
    pub fn rejoin(self) -> Queued {
        let mut queued = self.queued;
        if let Some((rest, logits)) = self.rest {
            queued.job.tokens.extend(rest);
            queued.job.logits = logits;
        }
        queued
    }

    /// What is left of the job after this pass.
    pub fn remaining(self) -> Option<Queued> {
        let Taken { mut queued, rest } = self;
        let (tokens, logits) = rest?;
        queued.job.tokens = tokens;
        queued.job.logits = logits;
        Some(queued)
    }
}

/// Takes jobs until the pass of `most` tokens is full: decode steps first, since somebody waits for each of their tokens, then
/// prefills in the order of their arrival, the last of them cut where the pass ends. The first job in the
/// queue always gets some of the pass.
pub(super) fn take_batch(waiting: &mut VecDeque<Queued>, most: usize) -> Vec<Taken> {
    if waiting.front().is_some_and(|q| q.alone || !splits(&q.job)) {
        let mut first: Vec<Taken> = waiting.pop_front().map(Taken::whole).into_iter().collect();
        if first.iter().all(|t| !t.queued.alone) {
            fill(waiting, &mut first, most);
        }
        return first;
    }
    let mut taken = Vec::new();
    fill(waiting, &mut taken, most);
    taken
}

/// Whether a job may run in several passes. One that wants all rows of logits wants them together.
fn splits(job: &Job) -> bool {
    job.logits != Logits::All
}

fn fill(waiting: &mut VecDeque<Queued>, taken: &mut Vec<Taken>, most: usize) {
    let used: usize = taken.iter().map(|t| t.queued.job.tokens.len()).sum();
    let mut left = most.saturating_sub(used);
    let long_waits = waiting.iter().any(|q| q.job.tokens.len() > SHORT);
    let reserve = if long_waits && taken.is_empty() { PREFILL_SHARE } else { 0 };
    take_where(waiting, taken, |job| {
        let n = job.tokens.len();
        let fits = n <= SHORT && n <= left.saturating_sub(reserve);
        left -= if fits { n } else { 0 };
        fits.then_some(n)
    });
    take_where(waiting, taken, |job| {
        let n = job.tokens.len();
        let some = if n <= left {
            n
        } else if splits(job) {
            left
        } else {
            0
        };
        left -= some;
        (some > 0).then_some(some)
    });
}

/// Moves jobs for which `want` says how many of their tokens. A state occurs once in a batch, with its
/// oldest job; a job that must run alone stays.
fn take_where(
    waiting: &mut VecDeque<Queued>,
    taken: &mut Vec<Taken>,
    mut want: impl FnMut(&Job) -> Option<usize>,
) {
    let mut passed = Vec::new();
    for queued in std::mem::take(waiting) {
        let state = queued.job.state;
        let twice = taken.iter().any(|t| t.queued.job.state == state) || passed.contains(&state);
        let tokens = if twice || queued.alone { None } else { want(&queued.job) };
        match tokens {
            Some(n) if n == queued.job.tokens.len() => taken.push(Taken::whole(queued)),
            Some(n) => taken.push(Taken::split(queued, n)),
            None => {
                passed.push(state);
                waiting.push_back(queued);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_BATCH_TOKENS;
    use super::*;
    use crate::backend::StateId;
    use crate::cancel::CancelToken;

    /// (state, tokens) of each; `alone` marks the jobs of these states.
    fn queue(jobs: &[(u64, usize)], alone: &[u64]) -> VecDeque<Queued> {
        let job = |&(state, tokens): &(u64, usize)| Job {
            state: StateId(state),
            tokens: vec![0; tokens],
            logits: Logits::Last { read: false },
            cancel: CancelToken::new(),
        };
        (jobs.iter().enumerate())
            .map(|(i, j)| Queued { id: JobId(i as u64), job: job(j), alone: alone.contains(&j.0) })
            .collect()
    }

    /// The passes that a queue makes: (state, tokens) of each slot.
    fn passes(mut waiting: VecDeque<Queued>) -> Vec<Vec<(u64, usize)>> {
        let mut passes = Vec::new();
        while !waiting.is_empty() {
            let taken = take_batch(&mut waiting, MAX_BATCH_TOKENS);
            passes.push(
                taken.iter().map(|t| (t.queued.job.state.0, t.queued.job.tokens.len())).collect::<Vec<_>>(),
            );
            for t in taken.into_iter().rev() {
                waiting.extend(t.remaining().into_iter().collect::<Vec<_>>());
            }
            assert!(passes.len() < 100, "the queue does not end");
        }
        passes
    }

    #[test]
    fn passes_are_full_and_decode_steps_go_first() {
        for (jobs, alone, want) in [
            // Branches decode together.
            (vec![(1, 1), (2, 1), (3, 5)], vec![], vec![vec![(1, 1), (2, 1), (3, 5)]]),
            // Prefills of several contexts share passes, the last one cut.
            (vec![(1, 40), (2, 40)], vec![], vec![vec![(1, 40), (2, 24)], vec![(2, 16)]]),
            // A decode step does not wait behind a prefill.
            (vec![(1, 64), (2, 1)], vec![], vec![vec![(2, 1), (1, 63)], vec![(1, 1)]]),
            // A state occurs once in a pass, its jobs in order.
            (vec![(1, 20), (1, 1), (2, 1)], vec![], vec![vec![(2, 1), (1, 20)], vec![(1, 1)]]),
            // A suspect runs by itself.
            (vec![(1, 1), (2, 1), (3, 1)], vec![1, 2], vec![vec![(1, 1)], vec![(2, 1)], vec![(3, 1)]]),
        ] {
            assert_eq!(passes(queue(&jobs, &alone)), want, "{jobs:?}");
        }
    }

    #[test]
    fn many_decode_steps_leave_a_share_to_a_prefill() {
        let mut jobs = vec![(0, 64)];
        jobs.extend((1..100).map(|state| (state, 1)));
        let first = passes(queue(&jobs, &[])).remove(0);
        assert_eq!(first.len(), MAX_BATCH_TOKENS - PREFILL_SHARE + 1);
        assert!(first.contains(&(0, PREFILL_SHARE)));
    }
}
