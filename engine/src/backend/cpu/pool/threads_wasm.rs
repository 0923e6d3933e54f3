//! Threads of a page: workers that the host started with this instance's memory, each of which called [`help`].
//!
//! A page's thread cannot be started in the middle of a call, so they wait here until a pool takes them.

use super::MAX_THREADS;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

type Run = Box<dyn FnOnce() + Send>;

/// One waiting thread.
struct Helper {
    thread: Thread,
    /// What it runs next.
    run: Mutex<Option<Run>>,
    changed: Condvar,
}

/// Helpers that nobody has taken.
static IDLE: Mutex<Vec<Arc<Helper>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the instance; nothing is left half done here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the calling worker a thread of this instance. Returns never: the host ends the worker.
pub fn help() -> ! {
    let thread = std::thread::current();
    let helper = Arc::new(Helper { thread, run: Mutex::new(None), changed: Condvar::new() });
    loop {
        lock(&IDLE).push(helper.clone());
        let mut next = lock(&helper.run);
        let run = loop {
            match next.take() {
                Some(run) => break run,
                None => next = helper.changed.wait(next).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(next);
        run();
    }
}

/// Helpers that wait.
pub fn idle() -> usize {
    lock(&IDLE).len()
}

/// The caller and all helpers that wait.
pub(crate) fn default_threads() -> usize {
    (idle() + 1).min(MAX_THREADS)
}

/// A helper at work.
pub(super) struct Handle {
    helper: Arc<Helper>,
    done: Arc<(Mutex<bool>, Condvar)>,
}

impl Handle {
    /// For waking it.
    pub fn thread(&self) -> &Thread {
        &self.helper.thread
    }

    /// Waits until it has ended this work.
    pub fn join(self) {
        let (done, changed) = &*self.done;
        let mut ended = lock(done);
        while !*ended {
            ended = changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Gives work to a helper; `None` if none waits.
pub(super) fn start(_name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<Option<Handle>> {
    let Some(helper) = lock(&IDLE).pop() else { return Ok(None) };
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let end = done.clone();
    *lock(&helper.run) = Some(Box::new(move || {
        run();
        *lock(&end.0) = true;
        end.1.notify_all();
    }));
    helper.changed.notify_one();
    Ok(Some(Handle { helper, done }))
}
