//! Forms batches from all runnable work of a model.
//!
//! There is no scheduler thread: whoever waits for a result drives. One waiter at a time takes the queued
//! jobs that fit into a pass, submits them as one batch (one pass over the weights) and hands the results out;
//! the others sleep until theirs is there, until it is their turn to drive, or until they have to give up.
//!
//! Threads that decode side by side come back from a pass at slightly different times. The first of them
//! waits a moment for those that shared the last pass, so that they go on sharing ([`company`]).

mod batch;
mod company;
#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod wait;
#[cfg(target_arch = "wasm32")]
#[path = "wasm.rs"]
mod wait;

use crate::backend::{Backend, Batch, Input, Logits, Selection, Slot, SlotOutput, StateId, Ticket};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use batch::{take_batch, Queued, Taken};
use company::Company;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use web_time::{Duration, Instant};

/// Tokens whose logits are asked for at a time, and tokens of a pass on the CPU. Bounds the scratch memory and how long
/// a decode step waits behind a prefill; more would not make a pass over the weights noticeably cheaper per token.
pub const MAX_BATCH_TOKENS: usize = 64;

/// How often a waiter looks at its own cancellation and deadline while another thread's pass runs.
const LOOK: Duration = Duration::from_millis(5);

/// One state's next tokens.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub state: StateId,
    pub tokens: Vec<u32>,
    pub logits: Logits,
    pub cancel: CancelToken,
}

/// A queued job; redeem with [`Scheduler::wait`] or give up with [`Scheduler::abandon`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JobId(u64);

/// Where a finished job's logits are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    ticket: Ticket,
    slot: usize,
    /// It was the only slot of its pass.
    alone: bool,
}

/// How long a caller is willing to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub cancel: &'a CancelToken,
    pub deadline: Option<Instant>,
}

impl Patience<'_> {
    pub fn check(&self) -> Result<()> {
        self.cancel.check()?;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Timeout),
            _ => Ok(()),
        }
    }
}

/// Counts since the model was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
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
    /// Jobs of the pass under way.
    in_flight: Vec<(JobId, StateId)>,
    /// Of those, jobs whose results nobody wants any more.
    abandoned: HashSet<JobId>,
    company: Company,
    stats: SchedulerStats,
}

/// The queue in front of a backend.
pub(crate) struct Scheduler {
    backend: Arc<dyn Backend>,
    pass_tokens: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Scheduler {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let pass_tokens = backend.pass_tokens().max(1);
        Scheduler { backend, pass_tokens, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// Tokens that a pass takes at most.
    pub fn pass_tokens(&self) -> usize {
        self.pass_tokens
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between statements, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&self, queue: MutexGuard<'a, Queue>, at_most: Duration) -> MutexGuard<'a, Queue> {
        self.changed.wait_timeout(queue, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn stats(&self) -> SchedulerStats {
        self.lock().stats
    }

    /// Jobs that no pass has taken yet.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Queues a job of at least one and at most [`Scheduler::pass_tokens`] tokens.
    pub fn enqueue(&self, job: Job) -> JobId {
        let mut queue = self.lock();
        let id = JobId(queue.next);
        queue.next += 1;
        queue.waiting.push_back(Queued { id, job, alone: false });
        drop(queue);
        self.changed.notify_all();
        id
    }

    /// Waits until a job has run, driving the queue if nobody else does. A caller whose patience ends gets its
    /// error within [`LOOK`], or at the end of the pass that it drives itself.
    pub fn wait(&self, id: JobId, patience: Patience<'_>) -> Result<Done> {
        let mut queue = self.lock();
        queue.company.enter();
        let mut hold = None;
        let result = loop {
            if let Some(done) = queue.done.remove(&id) {
                break done;
            }
            if let Err(error) = patience.check() {
                self.abandon_in(&mut queue, id);
                break Err(error);
            }
            if queue.driving {
                queue = self.sleep(queue, LOOK);
                continue;
            }
            let Queue { company, waiting, .. } = &mut *queue;
            if let Some(moment) = company.missing(waiting, &mut hold) {
                queue = self.sleep(queue, moment);
                continue;
            }
            queue = self.drive(queue);
        };
        queue.company.leave();
        result
    }

    /// Runs one pass. The queue is unlocked meanwhile.
    fn drive<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        end_cancelled(&mut queue);
        let jobs = take_batch(&mut queue.waiting, self.pass_tokens);
        if jobs.is_empty() {
            return queue;
        }
        queue.driving = true;
        queue.in_flight = jobs.iter().map(|t| (t.queued.id, t.queued.job.state)).collect();
        drop(queue);
        let turn = Turn { scheduler: self, ended: false };
        let began = Instant::now();
        let results = self.run(&jobs);
        turn.end(jobs, results, began.elapsed());
        self.lock()
    }

    /// A finished job's result, if it is there.
    pub fn try_take(&self, id: JobId) -> Option<Result<Done>> {
        self.lock().done.remove(&id)
    }

    /// Takes a job back that has not begun; false if it has.
    pub fn withdraw(&self, id: JobId) -> bool {
        remove(&mut self.lock().waiting, id)
    }

    /// Gives a job up: it does not run, or its result is dropped.
    pub fn abandon(&self, id: JobId) {
        self.abandon_in(&mut self.lock(), id);
    }

    fn abandon_in(&self, queue: &mut Queue, id: JobId) {
        match queue.done.remove(&id) {
            Some(Ok(done)) => self.discard(done),
            Some(Err(_)) => {}
            None if remove(&mut queue.waiting, id) => {}
            None if queue.in_flight.iter().any(|(job, _)| *job == id) => {
                queue.abandoned.insert(id);
            }
            None => {}
        }
    }

    /// Waits until no pass uses a state: one whose job was abandoned may still be in another thread's.
    pub fn settle(&self, state: StateId) {
        let mut queue = self.lock();
        while queue.in_flight.iter().any(|(_, s)| *s == state) {
            queue = self.sleep(queue, LOOK);
        }
    }

    /// Queues a job and waits for it.
    pub fn run_job(&self, job: Job, deadline: Option<Instant>) -> Result<Done> {
        let cancel = job.cancel.clone();
        let id = self.enqueue(job);
        self.wait(id, Patience { cancel: &cancel, deadline })
    }

    /// Chooses a finished job's token and waits for it, and for the logits if the job asked for them.
    pub fn select(
        &self,
        done: Done,
        selection: Selection<'_>,
        patience: Patience<'_>,
    ) -> Result<(u32, Option<Vec<f32>>)> {
        // A slot whose selection failed has no token to poll for, and nobody else would take it.
        self.backend.select(done.ticket, done.slot, selection).inspect_err(|_| self.discard(done))?;
        let output = self.output(done, patience)?;
        let token = output.token.ok_or_else(|| Error::Internal("the backend returned no token".into()))?;
        Ok((token, output.logits))
    }

    /// Like [`Scheduler::select`], and queues the pass of `state` that reads the token before that is known here,
    /// where the backend can and nobody shares its passes. The pass's result is an error's to discard, and the
    /// state is one token longer in any case where there is one.
    pub fn select_ahead(
        &self,
        done: Done,
        selection: Selection<'_>,
        state: StateId,
        patience: Patience<'_>,
    ) -> Result<(u32, Option<Done>)> {
        self.backend.select(done.ticket, done.slot, selection).inspect_err(|_| self.discard(done))?;
        let ahead = self.run_ahead(done, state, patience.cancel);
        let output = self.output(done, patience);
        let token = output.and_then(|output| {
            output.token.ok_or_else(|| Error::Internal("the backend returned no token".into()))
        });
        match token {
            Ok(token) => Ok((token, ahead)),
            Err(error) => {
                ahead.into_iter().for_each(|ahead| self.discard(ahead));
                Err(error)
            }
        }
    }

    /// Queues the pass that reads a selected token; `None` where others wait, or the pass is refused: it is asked for
    /// again then, with the token.
    fn run_ahead(&self, done: Done, state: StateId, cancel: &CancelToken) -> Option<Done> {
        let mut queue = self.lock();
        // Who shared its last pass with others shares the next one too.
        let shares = !done.alone || queue.driving || !queue.waiting.is_empty();
        if shares || !self.backend.chooses_ahead() {
            return None;
        }
        queue.driving = true;
        queue.in_flight = vec![];
        drop(queue);
        let turn = Turn { scheduler: self, ended: true };
        let slot = Slot {
            state,
            input: Input::Sampled(done.ticket, done.slot),
            logits: Logits::Last { read: false },
            cancel: cancel.clone(),
        };
        let ticket = self.backend.submit(Batch { slots: vec![slot] }).ok();
        if ticket.is_some() {
            let mut queue = self.lock();
            queue.stats.passes += 1;
            queue.stats.slots += 1;
            queue.stats.tokens += 1;
        }
        drop(turn);
        ticket.map(|ticket| Done { ticket, slot: 0, alone: true })
    }

    /// A job whose result is there already.
    pub fn enqueue_done(&self, done: Done) -> JobId {
        let mut queue = self.lock();
        let id = JobId(queue.next);
        queue.next += 1;
        queue.done.insert(id, Ok(done));
        id
    }

    /// A finished job's output.
    pub fn output(&self, done: Done, patience: Patience<'_>) -> Result<SlotOutput> {
        wait::until_ready(|| self.backend.poll(done.ticket, done.slot), || patience.check())
            .inspect_err(|_| self.discard(done))
    }

    /// Drops a finished job's output.
    pub fn discard(&self, done: Done) {
        self.backend.discard(done.ticket, done.slot);
    }

    fn run(&self, jobs: &[Taken]) -> Result<Ticket> {
        let slots = jobs
            .iter()
            .map(|Taken { queued: Queued { job, .. }, .. }| Slot {
                state: job.state,
                input: Input::Tokens(job.tokens.clone()),
                logits: job.logits,
                cancel: job.cancel.clone(),
            })
            .collect();
        self.backend.submit(Batch { slots })
    }
}

fn remove(waiting: &mut VecDeque<Queued>, id: JobId) -> bool {
    let before = waiting.len();
    waiting.retain(|q| q.id != id);
    waiting.len() < before
}

/// Jobs that were cancelled while they waited do not take part: they would end the pass of the others.
fn end_cancelled(queue: &mut Queue) {
    let (cancelled, waiting) =
        std::mem::take(&mut queue.waiting).into_iter().partition(|q| q.job.cancel.is_cancelled());
    queue.waiting = waiting;
    let cancelled: VecDeque<Queued> = cancelled;
    queue.done.extend(cancelled.into_iter().map(|q| (q.id, Err(Error::Cancelled))));
}

/// The right to drive. Gives it back when dropped, so that a panic in a backend fails its own jobs and
/// leaves the scheduler usable.
struct Turn<'a> {
    scheduler: &'a Scheduler,
    ended: bool,
}

impl Turn<'_> {
    fn end(mut self, jobs: Vec<Taken>, outcome: Result<Ticket>, took: Duration) {
        self.ended = true;
        let mut queue = self.scheduler.lock();
        queue.company.shared(jobs.iter().map(|t| t.queued.job.state), took);
        match outcome {
            Ok(ticket) => self.succeed(&mut queue, jobs, ticket),
            Err(error) => fail(&mut queue, jobs, &error),
        }
    }

    fn succeed(&self, queue: &mut Queue, jobs: Vec<Taken>, ticket: Ticket) {
        queue.stats.passes += 1;
        queue.stats.slots += jobs.len() as u64;
        let mut unfinished = Vec::new();
        let alone = jobs.len() == 1;
        for (slot, taken) in jobs.into_iter().enumerate() {
            let (id, done) = (taken.queued.id, Done { ticket, slot, alone });
            queue.stats.tokens += taken.queued.job.tokens.len() as u64;
            let wanted = !queue.abandoned.remove(&id);
            match taken.rest {
                None if wanted => drop(queue.done.insert(id, Ok(done))),
                None => self.scheduler.discard(done),
                Some(_) => {
                    self.scheduler.discard(done);
                    unfinished.extend(taken.remaining().filter(|_| wanted));
                }
            }
        }
        unfinished.into_iter().rev().for_each(|q| queue.waiting.push_front(q));
    }
}

/// A failed batch changed nothing. A cancelled job and one that failed by itself get their error; the
/// others run again, each alone unless a neighbour's cancellation explains the failure.
fn fail(queue: &mut Queue, jobs: Vec<Taken>, error: &Error) {
    let single = jobs.len() == 1;
    for taken in jobs.into_iter().rev() {
        let mut queued = taken.rejoin();
        if queue.abandoned.remove(&queued.id) {
            continue;
        }
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
        for (id, _) in std::mem::take(&mut queue.in_flight) {
            let wanted = !queue.abandoned.remove(&id);
            if !self.ended && wanted {
                queue.done.insert(id, Err(Error::Internal("the backend panicked".into())));
            }
        }
        queue.driving = false;
        drop(queue);
        self.scheduler.changed.notify_all();
    }
}
