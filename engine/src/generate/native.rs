//! Masks computed by another thread while a pass runs.

use crate::constrain::Matcher;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender};
use std::sync::OnceLock;
use std::time::Instant;

type Work = Box<dyn FnOnce() + Send>;

/// A matcher whose next mask is being computed.
pub(super) struct Ahead(Receiver<(Matcher, f64)>);

impl Ahead {
    /// Begins. Without a thread to do it the matcher comes back.
    pub fn start(mut matcher: Matcher) -> Result<Self, Matcher> {
        let Some(worker) = worker() else { return Err(matcher) };
        let (done, result) = sync_channel(1);
        // What fails here fails again, and is reported, when the mask is asked for.
        let work = move || {
            let began = Instant::now();
            let _ = matcher.mask();
            // Nobody waits any more where the generation was dropped.
            let _ = done.send((matcher, began.elapsed().as_secs_f64()));
        };
        // The thread ends with the process only.
        let _ = worker.send(Box::new(work));
        Ok(Ahead(result))
    }

    /// The matcher, and the seconds that its mask took; `None` if the thread panicked.
    pub fn wait(self) -> Option<(Matcher, f64)> {
        self.0.recv().ok()
    }
}

/// One thread for all generations: masks are short beside passes.
fn worker() -> Option<Sender<Work>> {
    static WORKER: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = channel::<Work>();
        let run = move || {
            for work in receiver {
                // A panic is its generation's error, and nobody else's.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
        };
        std::thread::Builder::new().name("lean-masks".into()).spawn(run).ok().map(|_| sender)
    };
    WORKER.get_or_init(start).clone()
}
