//! Forms batches from all runnable work of a model.
//!
//! There is no scheduler thread: whoever waits for a result drives. One waiter at a time takes all queued
//! jobs, submits them as one batch (one pass over the weights) and hands the results out; the others sleep
//! until theirs is there or it is their turn to drive.

#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod wait;
#[cfg(target_arch = "wasm32")]
#[path = "wasm.rs"]
mod wait;

use crate::backend::{Backend, Batch, Input, Logits, Selection, Slot, SlotOutput, StateId, Ticket};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Tokens in one pass. Bounds the scratch memory and how long a decode step waits behind a prefill; more
/// would not make a pass over the weights noticeably cheaper per token.
pub const MAX_BATCH_TOKENS: usize = 64;

/// One state's next tokens.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub state: StateId,
    pub tokens: Vec<u32>,
    pub logits: Logits,
    pub cancel: CancelToken,
}

/// A job in the queue.
struct Queued {
    id: JobId,
    job: Job,
    /// Runs in a batch of its own, to tell whose fault a failure is.
    alone: bool,
}

/// A queued job; redeem with [`Scheduler::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JobId(u64);

/// Where a finished job's logits are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    ticket: Ticket,
    slot: usize,
}

/// Counts since the model was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedulerStats {
    /// Passes over the weights.
    pub passes: u64,
    /// Slots in those passes; more slots than passes means that work shared them.
    pub slots: u64,
    /// Tokens in those passes.
    pub tokens: u64,
}

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: VecDeque<Queued>,
    done: HashMap<JobId, Result<Done>>,
    driving: bool,
    stats: SchedulerStats,
}

/// The queue in front of a backend.
pub(crate) struct Scheduler {
    backend: Arc<dyn Backend>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Scheduler {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Scheduler { backend, queue: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between statements, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> SchedulerStats {
        self.lock().stats
    }

    /// Queues a job of at least one and at most [`MAX_BATCH_TOKENS`] tokens.
    pub fn enqueue(&self, job: Job) -> JobId {
        let mut queue = self.lock();
        let id = JobId(queue.next);
        queue.next += 1;
        queue.waiting.push_back(Queued { id, job, alone: false });
        id
    }

    /// Waits until a job has run, driving the queue if nobody else does.
    pub fn wait(&self, id: JobId) -> Result<Done> {
        let mut queue = self.lock();
        loop {
            if let Some(done) = queue.done.remove(&id) {
                return done;
            }
            if queue.driving {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.driving = true;
            let jobs = take_batch(&mut queue.waiting);
            drop(queue);
            let turn = Turn { scheduler: self, jobs: jobs.iter().map(|q| q.id).collect() };
            let results = self.run(&jobs);
            turn.end(jobs, results);
            queue = self.lock();
        }
    }

    /// Queues a job and waits for it.
    pub fn run_job(&self, job: Job) -> Result<Done> {
        let id = self.enqueue(job);
        self.wait(id)
    }

    /// Chooses a finished job's token and waits for it.
    pub fn select(&self, done: Done, selection: Selection<'_>) -> Result<u32> {
        // A slot whose selection failed has no token to poll for, and nobody else would take it.
        self.backend.select(done.ticket, done.slot, selection).inspect_err(|_| self.discard(done))?;
        let output = self.output(done)?;
        output.token.ok_or_else(|| Error::Internal("the backend returned no token".into()))
    }

    /// A finished job's output.
    pub fn output(&self, done: Done) -> Result<SlotOutput> {
        wait::until_ready(|| self.backend.poll(done.ticket, done.slot))
    }

    /// Drops a finished job's output.
    pub fn discard(&self, done: Done) {
        self.backend.discard(done.ticket, done.slot);
    }

    fn run(&self, jobs: &[Queued]) -> Result<Ticket> {
        let slots = jobs
            .iter()
            .map(|Queued { job, .. }| Slot {
                state: job.state,
                input: Input::Tokens(job.tokens.clone()),
                logits: job.logits,
                cancel: job.cancel.clone(),
            })
            .collect();
        self.backend.submit(Batch { slots })
    }
}

/// Takes jobs from the front until the pass is full. The first job always fits.
fn take_batch(waiting: &mut VecDeque<Queued>) -> Vec<Queued> {
    let (mut jobs, mut tokens) = (Vec::<Queued>::new(), 0);
    while let Some(next) = waiting.front() {
        let n = next.job.tokens.len();
        // A state appears once in a batch; its next job waits for the next pass.
        let twice = jobs.iter().any(|q| q.job.state == next.job.state);
        let last_was_alone = jobs.last().is_some_and(|q| q.alone);
        if !jobs.is_empty() && (tokens + n > MAX_BATCH_TOKENS || twice || next.alone || last_was_alone) {
            break;
        }
        tokens += n;
        jobs.extend(waiting.pop_front());
    }
    jobs
}

/// The right to drive. Gives it back when dropped, so that a panic in a backend fails its own jobs and
/// leaves the scheduler usable.
struct Turn<'a> {
    scheduler: &'a Scheduler,
    jobs: Vec<JobId>,
}

impl Turn<'_> {
    fn end(mut self, jobs: Vec<Queued>, outcome: Result<Ticket>) {
        self.jobs.clear();
        let mut queue = self.scheduler.lock();
        match outcome {
            Ok(ticket) => {
                queue.stats.passes += 1;
                queue.stats.slots += jobs.len() as u64;
                for (slot, Queued { id, job, .. }) in jobs.into_iter().enumerate() {
                    queue.stats.tokens += job.tokens.len() as u64;
                    queue.done.insert(id, Ok(Done { ticket, slot }));
                }
            }
            Err(error) => fail(&mut queue, jobs, &error),
        }
    }
}

/// A failed batch changed nothing. A cancelled job and one that failed by itself get their error; the
/// others run again, each alone unless a neighbour's cancellation explains the failure.
fn fail(queue: &mut Queue, jobs: Vec<Queued>, error: &Error) {
    let single = jobs.len() == 1;
    for mut queued in jobs.into_iter().rev() {
        if queued.job.cancel.is_cancelled() {
            queue.done.insert(queued.id, Err(Error::Cancelled));
        } else if single && *error != Error::Cancelled {
            queue.done.insert(queued.id, Err(error.clone()));
        } else {
            queued.alone |= *error != Error::Cancelled;
            queue.waiting.push_front(queued);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.scheduler.lock();
        for id in self.jobs.drain(..) {
            queue.done.insert(id, Err(Error::Internal("the backend panicked".into())));
        }
        queue.driving = false;
        drop(queue);
        self.scheduler.changed.notify_all();
    }
}
