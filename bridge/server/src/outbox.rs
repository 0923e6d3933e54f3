//! Frames on their way to the host: a queue bounded in bytes.

use lean_protocol::Frame;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes that may wait for the host. Events are limited by credit as well; this bounds what answers add, and
/// keeps a host that stopped reading under 1 MiB.
const LIMIT_BYTES: usize = 512 << 10;
/// What a queued frame takes beside its bytes: itself, its place in a queue that grows by doubling, the allocator's share.
const FRAME_BYTES: usize = 2 * std::mem::size_of::<Frame>() + 32;

/// The other side is gone or going: nothing can be sent any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

#[derive(Default)]
struct State {
    frames: VecDeque<Frame>,
    bytes: usize,
    closed: bool,
}

/// Takes frames as they are made.
pub(crate) type Sink = Box<dyn Fn(Frame) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
    /// Whoever takes frames at once; nothing is queued then.
    sink: Option<Sink>,
}

fn cost(frame: &Frame) -> usize {
    FRAME_BYTES + frame.body_len()
}

impl Outbox {
    pub fn with_sink(sink: Sink) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues a frame; waits while the queue is full.
    pub fn push(&self, frame: Frame) -> Result<(), Closed> {
        let mut s = self.lock();
        while !s.closed && s.bytes > 0 && s.bytes + cost(&frame) > LIMIT_BYTES {
            s = self.changed.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        if s.closed {
            return Err(Closed);
        }
        if let Some(sink) = &self.sink {
            drop(s);
            sink(frame);
            return Ok(());
        }
        s.bytes += cost(&frame);
        s.frames.push_back(frame);
        self.changed.notify_all();
        Ok(())
    }

    /// Queues a last frame, if any, without waiting, and refuses all later ones. What is queued may be taken.
    pub fn finish(&self, last: Option<Frame>) {
        let mut s = self.lock();
        let open = !std::mem::replace(&mut s.closed, true);
        match (last.filter(|_| open), &self.sink) {
            (Some(frame), Some(sink)) => {
                drop(s);
                sink(frame);
            }
            (Some(frame), None) => {
                s.bytes += cost(&frame);
                s.frames.push_back(frame);
            }
            (None, _) => {}
        }
        self.changed.notify_all();
    }

    /// Throws away what is queued and refuses everything.
    pub fn close(&self) {
        let mut s = self.lock();
        s.frames.clear();
        s.bytes = 0;
        s.closed = true;
        self.changed.notify_all();
    }

    /// The next frame; `Ok(None)` after the timeout, `Err` once closed and empty.
    pub fn pop(&self, timeout: Option<Duration>) -> Result<Option<Frame>, Closed> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut s = self.lock();
        loop {
            if let Some(frame) = s.frames.pop_front() {
                s.bytes -= cost(&frame);
                self.changed.notify_all();
                return Ok(Some(frame));
            }
            if s.closed {
                return Err(Closed);
            }
            s = match deadline {
                None => self.changed.wait(s).unwrap_or_else(|e| e.into_inner()),
                Some(d) => {
                    let left = d.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    self.changed.wait_timeout(s, left).unwrap_or_else(|e| e.into_inner()).0
                }
            };
        }
    }
}
