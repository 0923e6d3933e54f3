//! Workers that spin briefly between jobs, then park.
//!
//! A job is published by raising the epoch in `gate`. Workers join it if they come in time; the caller works
//! too, closes the gate when the items are handed out and waits for those who joined, so that a worker whose
//! core is busy elsewhere delays nobody.

use super::threads::{start, Handle};
use super::{Work, MAX_THREADS};
use crate::error::{Error, Result};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;
use web_time::Instant;

/// How long to spin before parking: longer than the gap between two steps of a layer, shorter than a time slice
/// by far, so that another process gets the core when it wants it.
const SPIN: Duration = Duration::from_micros(20);

/// `gate` is `epoch << 32 | CLOSED? | joined workers`.
const CLOSED: u64 = 1 << 31;
const JOINED: u64 = CLOSED - 1;

pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Handle>,
}

struct Shared {
    gate: AtomicU64,
    /// Written by the caller while the gate is closed and nobody is joined, read by those who joined.
    job: UnsafeCell<Option<Job>>,
    next: AtomicUsize,
    /// Set when the pool is dropped, before a last epoch.
    quit: AtomicBool,
    /// Workers that are parked or about to be.
    parked: Vec<AtomicBool>,
    panic: Mutex<Option<String>>,
}

struct Job {
    /// Its lifetime is erased; `Pool::run` does not return before the last use.
    work: *const (dyn Fn(usize, usize) + Sync),
    items: usize,
    caller: Thread,
}

// SAFETY: `job` is written only by the caller that holds `&mut Pool`, while the gate is closed with nobody
// joined; workers read it only between joining and leaving. The work behind the pointer is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is dereferenced only while `Pool::run` keeps it alive.
unsafe impl Send for Shared {}

impl Pool {
    /// Starts `threads - 1` workers, or as many as there are where a host made them beforehand.
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let n = threads.clamp(1, MAX_THREADS) - 1;
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            quit: AtomicBool::new(false),
            parked: (0..n).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
        });
        let mut pool = Pool { shared, workers: Vec::with_capacity(n) };
        for i in 0..n {
            let shared = pool.shared.clone();
            let started = start(format!("lean-cpu-{}", i + 1), move || shared.work_forever(i));
            let Some(worker) = started.map_err(|e| Error::Device {
                reason: format!("cannot start thread {} of {threads}: {e}", i + 2),
            })?
            else {
                break;
            };
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Threads, the caller's included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs all items and returns when the last has ended. A panic in one of them ends the job early.
    pub(crate) fn run(&mut self, items: usize, work: Work<'_>) -> Result<()> {
        if self.workers.is_empty() || items <= 1 {
            return catch_unwind(AssertUnwindSafe(|| (0..items).for_each(|i| work(i, 0))))
                .map_err(|p| Error::Internal(message(&*p)));
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; `work` outlives this call, and `finish` waits for every user.
        let work: *const (dyn Fn(usize, usize) + Sync) = unsafe { std::mem::transmute(work) };
        // SAFETY: the gate is closed and nobody is joined: the previous `finish` saw to it, and `&mut self`
        // keeps other callers out.
        unsafe { *shared.job.get() = Some(Job { work, items, caller: std::thread::current() }) };
        shared.next.store(0, Ordering::Relaxed);
        self.open();
        shared.work_on(0);
        shared.finish();
        match shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(message) => Err(Error::Internal(message)),
            None => Ok(()),
        }
    }

    /// Raises the epoch and wakes whoever is parked.
    fn open(&self) {
        let epoch = (self.shared.gate.load(Ordering::Relaxed) >> 32) + 1;
        // SeqCst against the store to `parked` and the load of `gate` in `wait_a_little`: one of the two sees
        // the other. It also releases the job to those who join.
        self.shared.gate.store(epoch << 32, Ordering::SeqCst);
        for (worker, parked) in self.workers.iter().zip(&self.shared.parked) {
            if parked.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            worker.join();
        }
    }
}

impl Shared {
    /// Body of worker `index`, thread `index + 1` of a job.
    fn work_forever(&self, index: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.join(index, seen) {
            seen = epoch;
            // SAFETY: joined, so the job stays until this thread leaves.
            let caller = unsafe { self.job() }.map(|job| job.caller.clone());
            self.work_on(index + 1);
            // Release what the items wrote to the caller, who acquires in `finish`.
            let before = self.gate.fetch_sub(1, Ordering::AcqRel);
            if before & CLOSED != 0 && before & JOINED == 1 {
                if let Some(caller) = caller {
                    caller.unpark();
                }
            }
        }
    }

    /// Waits for an open job after epoch `seen`, joins it and returns its epoch; `None` when the pool ends.
    fn join(&self, index: usize, mut seen: u64) -> Option<u64> {
        let mut spinning_since = Instant::now();
        loop {
            let gate = self.gate.load(Ordering::Acquire);
            if self.quit.load(Ordering::SeqCst) {
                return None;
            }
            if gate >> 32 == seen {
                self.wait_a_little(index, seen, &mut spinning_since);
            } else if gate & CLOSED != 0 {
                // Too late for this one.
                seen = gate >> 32;
            } else if self
                .gate
                .compare_exchange_weak(gate, gate + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(gate >> 32);
            }
        }
    }

    fn wait_a_little(&self, index: usize, seen: u64, spinning_since: &mut Instant) {
        if spinning_since.elapsed() < SPIN {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            return;
        }
        // SeqCst against the store to `gate` and the load of `parked` in `run`: one of the two sees the other.
        self.parked[index].store(true, Ordering::SeqCst);
        if self.gate.load(Ordering::SeqCst) >> 32 == seen && !self.quit.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.parked[index].store(false, Ordering::SeqCst);
        *spinning_since = Instant::now();
    }

    /// # Safety
    /// The calling thread has joined the open job, or is its caller.
    unsafe fn job(&self) -> Option<&Job> {
        // SAFETY: the job is not written before all who joined have left.
        unsafe { (*self.job.get()).as_ref() }
    }

    /// Takes items until there are none, as thread number `thread` of the job.
    fn work_on(&self, thread: usize) {
        // SAFETY: only called by the caller and by those who joined.
        let Some(job) = (unsafe { self.job() }) else { return };
        // SAFETY: `Pool::run`, which got the work by reference, waits until everybody has left.
        let work = unsafe { &*job.work };
        let done = catch_unwind(AssertUnwindSafe(|| loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= job.items {
                break;
            }
            work(item, thread);
        }));
        if let Err(payload) = done {
            self.next.store(job.items, Ordering::Relaxed);
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| message(&*payload));
        }
    }

    /// Closes the job and waits until everybody who joined has left.
    fn finish(&self) {
        self.gate.fetch_or(CLOSED, Ordering::AcqRel);
        let since = Instant::now();
        while self.gate.load(Ordering::Acquire) & JOINED != 0 {
            if since.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    format!("a kernel panicked: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_runs_once_whatever_the_threads() {
        for threads in 1..=4 {
            let mut pool = Pool::new(threads).unwrap();
            for items in [0, 1, 2, 7, 1000] {
                for _ in 0..50 {
                    let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                    let work = |item: usize, thread: usize| {
                        assert!(thread < threads);
                        counts[item].fetch_add(1, Ordering::Relaxed);
                    };
                    pool.run(items, &work).unwrap();
                    assert!(
                        counts.iter().all(|c| c.load(Ordering::Relaxed) == 1),
                        "{threads} threads, {items} items"
                    );
                }
            }
        }
    }

    #[test]
    fn workers_that_parked_wake_up() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..5 {
            std::thread::sleep(SPIN * 100);
            let sum = AtomicUsize::new(0);
            pool.run(100, &|item, _| {
                sum.fetch_add(item, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        for threads in [1, 3] {
            let mut pool = Pool::new(threads).unwrap();
            let error = pool.run(100, &|item, _| assert!(item != 40, "item 40")).unwrap_err();
            assert!(matches!(&error, Error::Internal(m) if m.contains("item 40")), "{error}");
            pool.run(100, &|_, _| {}).unwrap();
        }
    }
}
