//! Values that are generated side by side: one pass over the weights serves all of them.
//!
//! Whoever wants the next event of one branch queues the next step of every other branch too before it waits
//! for its own, so that the scheduler puts them into one batch, and takes their results along. Events of
//! branches that nobody pulls meanwhile wait in them, at most as many as their budgets allow. A single
//! generation is a group of one.

use super::run::Next;
use super::{Event, Run, RunDeps};
use crate::error::{Error, Result};
use crate::schedule::{JobId, Scheduler};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of a group's values. Dropping it ends that value alone.
pub(crate) struct Branch {
    group: Arc<[Mutex<Member>]>,
    index: usize,
    scheduler: Arc<Scheduler>,
}

struct Member {
    /// `None` once its branch was dropped.
    run: Option<Run>,
    /// A queued step, and whether it runs the last pending token.
    pending: Option<(JobId, bool)>,
    failed: Option<Error>,
}

impl Branch {
    /// Branches that share passes.
    pub fn group(runs: Vec<Run>, scheduler: &Arc<Scheduler>) -> Vec<Branch> {
        let members =
            runs.into_iter().map(|run| Mutex::new(Member { run: Some(run), pending: None, failed: None }));
        let group: Arc<[Mutex<Member>]> = members.collect();
        (0..group.len())
            .map(|index| Branch { group: group.clone(), index, scheduler: scheduler.clone() })
            .collect()
    }

    fn lock(&self) -> Result<MutexGuard<'_, Member>> {
        self.group[self.index].lock().map_err(|_| Error::Panic("inside this generation, earlier".into()))
    }

    /// The next event; `None` once the value is finished and all events are delivered. After an error every call
    /// returns the same error.
    pub fn next(&self, deps: &RunDeps<'_>) -> Result<Option<Event>> {
        let mut own = self.lock()?;
        loop {
            let Member { run, failed, .. } = &mut *own;
            let run = run.as_mut().ok_or_else(gone)?;
            if let Some(event) = run.pop_event() {
                return Ok(Some(event));
            }
            if let Some(error) = failed {
                return Err(error.clone());
            }
            if run.is_finished() {
                return Ok(None);
            }
            own.queue_step(deps);
            if own.pending.is_some() {
                self.step_others(deps);
                own.take_step(deps);
            }
        }
    }

    /// Takes results of the other branches and queues their next steps, without waiting for any. One that is
    /// locked is being pulled by another thread, which does the same.
    fn step_others(&self, deps: &RunDeps<'_>) {
        for (i, member) in self.group.iter().enumerate() {
            if i == self.index {
                continue;
            }
            if let Ok(mut member) = member.try_lock() {
                member.take_step_if_done(deps);
                member.queue_step(deps);
            }
        }
    }

    /// Looks at the run as it is.
    pub fn peek<R>(&self, look: impl FnOnce(&Run) -> R) -> Result<R> {
        self.lock()?.run.as_ref().map(look).ok_or_else(gone)
    }

    /// Looks at the run between two steps.
    pub fn with<R>(&self, deps: &RunDeps<'_>, look: impl FnOnce(&Run) -> R) -> Result<R> {
        let mut own = self.lock()?;
        own.pause(deps);
        let run = own.run.as_ref().ok_or_else(gone)?;
        // A failure may have left its last pass behind in another thread.
        deps.scheduler.settle(run.seq.state());
        Ok(look(run))
    }
}

fn gone() -> Error {
    Error::Internal("the branch is gone".into())
}

impl Member {
    /// Queues the next step, unless one is queued or none is needed.
    fn queue_step(&mut self, deps: &RunDeps<'_>) {
        let Some(run) = self.run.as_mut().filter(|r| !r.is_finished()) else { return };
        if self.failed.is_some() || self.pending.is_some() {
            return;
        }
        match run.prepare(deps) {
            Ok(Some(Next::Run(job, last))) => self.pending = Some((deps.scheduler.enqueue(job), last)),
            Ok(Some(Next::UnderWay(done))) => self.pending = Some((deps.scheduler.enqueue_done(done), true)),
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    /// Waits for the queued step and completes it.
    fn take_step(&mut self, deps: &RunDeps<'_>) {
        let (Some(run), Some((id, last))) = (&mut self.run, self.pending.take()) else { return };
        let done = deps.scheduler.wait(id, run.patience());
        if let Err(error) = done.and_then(|done| run.complete(deps, done, last)) {
            self.failed = Some(error);
        }
    }

    fn take_step_if_done(&mut self, deps: &RunDeps<'_>) {
        let (Some(run), Some((id, last))) = (&mut self.run, self.pending) else { return };
        if let Some(done) = deps.scheduler.try_take(id) {
            self.pending = None;
            if let Err(error) = done.and_then(|done| run.complete(deps, done, last)) {
                self.failed = Some(error);
            }
        }
    }

    /// Ends a queued step: takes it back if it has not begun.
    fn pause(&mut self, deps: &RunDeps<'_>) {
        if let Some((id, _)) = self.pending {
            if deps.scheduler.withdraw(id) {
                self.pending = None;
            } else {
                self.take_step(deps);
            }
        }
        if let Some(run) = &mut self.run {
            if let Err(error) = run.pull_back(deps.scheduler) {
                self.failed = Some(error);
            }
        }
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        // Another branch's thread may be stepping it; that takes a moment.
        let mut member = self.group[self.index].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, _)) = member.pending.take() {
            self.scheduler.abandon(id);
        }
        if let Some(run) = &mut member.run {
            // Its state goes with it.
            let _ = run.pull_back(&self.scheduler);
        }
        member.run = None;
    }
}
