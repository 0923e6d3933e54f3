//! Threads that share passes, made to meet by a backend whose passes begin when the test says so.

use super::*;
use crate::backend::*;
use crate::cancel::CancelToken;
use crate::context::Block;
use crate::error::{Error, Result};
use crate::schedule::{Job, Patience, Scheduler};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::thread;
use web_time::{Duration, Instant};

/// A backend behind a gate.
struct Gated {
    inner: Arc<dyn Backend>,
    /// (passes that arrived, whether they may go on)
    gate: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gated {
    fn wait_for_arrival(&self) {
        let mut gate = self.gate.lock().unwrap();
        while gate.0 == 0 {
            gate = self.changed.wait(gate).unwrap();
        }
    }

    fn open(&self) {
        self.gate.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Backend for Gated {
    fn submit(&self, batch: Batch) -> Result<Ticket> {
        let mut gate = self.gate.lock().unwrap();
        gate.0 += 1;
        self.changed.notify_all();
        while !gate.1 {
            gate = self.changed.wait(gate).unwrap();
        }
        drop(gate);
        self.inner.submit(batch)
    }
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }
    fn shape(&self) -> &StateShape {
        self.inner.shape()
    }
    fn new_state(&self) -> Result<StateId> {
        self.inner.new_state()
    }
    fn free_state(&self, state: StateId) {
        self.inner.free_state(state);
    }
    fn len(&self, state: StateId) -> Result<usize> {
        self.inner.len(state)
    }
    fn fork(&self, state: StateId) -> Result<StateId> {
        self.inner.fork(state)
    }
    fn truncate(&self, state: StateId, len: usize) -> Result<usize> {
        self.inner.truncate(state, len)
    }
    fn export(&self, state: StateId) -> Result<StateImage> {
        self.inner.export(state)
    }
    fn import(&self, image: &StateImage) -> Result<StateId> {
        self.inner.import(image)
    }
    fn parts(&self, state: StateId) -> Result<Vec<(u64, u64)>> {
        self.inner.parts(state)
    }
    fn pages_copied(&self) -> u64 {
        self.inner.pages_copied()
    }
    fn state_bytes(&self) -> u64 {
        self.inner.state_bytes()
    }
    fn select(&self, ticket: Ticket, slot: usize, selection: Selection<'_>) -> Result<()> {
        self.inner.select(ticket, slot, selection)
    }
    fn poll(&self, ticket: Ticket, slot: usize) -> Result<Poll<SlotOutput>> {
        self.inner.poll(ticket, slot)
    }
    fn discard(&self, ticket: Ticket, slot: usize) {
        self.inner.discard(ticket, slot);
    }
}

struct Stage {
    backend: Arc<Gated>,
    scheduler: Scheduler,
    sessions: Vec<Session>,
}

/// A closed gate and sessions of ten tokens behind it.
fn stage(sessions: usize) -> Stage {
    let path =
        format!("{}/../tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf", env!("CARGO_MANIFEST_DIR"));
    let model = Model::load(path, LoadOptions { threads: 1, ..Default::default() }).unwrap();
    let sessions = (0..sessions).map(|_| {
        let mut session = model.session(SessionOptions::default()).unwrap();
        session.append(&[Block::Tokens((20..30).collect())]).unwrap();
        session
    });
    let backend = Arc::new(Gated {
        inner: model.0.backend.clone(),
        gate: Mutex::new((0, false)),
        changed: Condvar::new(),
    });
    Stage { sessions: sessions.collect(), scheduler: Scheduler::new(backend.clone()), backend }
}

impl Stage {
    fn job(&self, session: usize, cancel: &CancelToken) -> Job {
        let state = self.sessions[session].seq.state();
        Job { state, tokens: vec![5], logits: Logits::Last { read: true }, cancel: cancel.clone() }
    }

    fn until_waiting(&self, jobs: usize) {
        while self.scheduler.waiting() != jobs {
            thread::yield_now();
        }
    }
}

#[test]
fn sessions_on_different_threads_join_one_pass() {
    let stage = stage(5);
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        let run = |i: usize| {
            let (stage, cancel) = (&stage, &cancel);
            move || {
                stage.scheduler.run_job(stage.job(i, cancel), None).map(|done| stage.scheduler.discard(done))
            }
        };
        let first = scope.spawn(run(0));
        stage.backend.wait_for_arrival();
        let others: Vec<_> = (1..5).map(|i| scope.spawn(run(i))).collect();
        stage.until_waiting(4);
        stage.backend.open();
        assert_eq!(first.join().unwrap(), Ok(()));
        for other in others {
            assert_eq!(other.join().unwrap(), Ok(()));
        }
    });
    let stats = stage.scheduler.stats();
    assert_eq!(
        (stats.passes, stats.slots, stats.tokens),
        (2, 5, 5),
        "one pass for the first, one for the others"
    );
}

#[test]
fn a_waiter_sees_its_own_end_while_anothers_pass_runs() {
    let stage = stage(4);
    let (patient, cancelled) = (CancelToken::new(), CancelToken::new());
    let soon = || Some(Instant::now() + Duration::from_millis(20));
    thread::scope(|scope| {
        let stage = &stage;
        // The first two are in the pass that hangs, the others in the queue behind it.
        let in_pass = stage.scheduler.enqueue(stage.job(1, &patient));
        let driver = scope.spawn(|| stage.scheduler.run_job(stage.job(0, &patient), None));
        stage.backend.wait_for_arrival();
        let wait = Patience { cancel: &patient, deadline: soon() };
        assert_eq!(stage.scheduler.wait(in_pass, wait).map(drop), Err(Error::Timeout));
        assert_eq!(stage.scheduler.run_job(stage.job(2, &patient), soon()).map(drop), Err(Error::Timeout));
        let queued = scope.spawn(|| stage.scheduler.run_job(stage.job(3, &cancelled), None));
        stage.until_waiting(1);
        cancelled.cancel();
        assert_eq!(queued.join().unwrap().map(drop), Err(Error::Cancelled));
        assert_eq!(stage.scheduler.waiting(), 0, "who gave up leaves nothing in the queue");
        stage.backend.open();
        stage.scheduler.discard(driver.join().unwrap().unwrap());
        stage.scheduler.settle(stage.sessions[1].seq.state());
    });
    assert_eq!(stage.scheduler.stats().slots, 2);
    // The abandoned state is as usable as any.
    let done = stage.scheduler.run_job(stage.job(1, &patient), None).unwrap();
    stage.scheduler.discard(done);
}

#[test]
fn a_job_cancelled_in_the_queue_does_not_end_the_pass_of_others() {
    let stage = stage(2);
    stage.backend.open();
    let (alive, dead) = (CancelToken::new(), CancelToken::new());
    let (first, second) =
        (stage.scheduler.enqueue(stage.job(0, &dead)), stage.scheduler.enqueue(stage.job(1, &alive)));
    dead.cancel();
    let patience = Patience { cancel: &alive, deadline: None };
    stage.scheduler.discard(stage.scheduler.wait(second, patience).unwrap());
    assert_eq!(stage.scheduler.wait(first, patience).map(drop), Err(Error::Cancelled));
    assert_eq!(stage.backend.gate.lock().unwrap().0, 1, "one submission");
}
