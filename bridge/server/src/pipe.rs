//! A bridge inside this process: what would go to its stdin goes in, what would come from its stdout comes out, byte
//! for byte, and a thread of its own stands for the process.
//!
//! **Invariants.** [`Pipe::send`] waits only while [`WAITING_BYTES`] are waiting, [`Pipe::recv`] as long as it is told;
//! [`Pipe::close`] wakes both from any thread. After it, no thread that the pipe started runs.

use crate::bytes;
use crate::port::Host;
use crate::{Connection, Ended};
use lean_engine::{Error, Result};
use lean_protocol::{FrameReader, MAGIC};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that may wait for the engine to take them, as in the pipe of a process; a piece that is larger is taken when
/// none wait.
pub const WAITING_BYTES: usize = 256 << 10;

/// What became of bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// All of them were taken.
    All,
    /// None was, within the timeout: too many are waiting, since nobody takes what comes out.
    None,
    /// None was, and none will be.
    Ended,
}

/// What there was to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Whole frames, one or several; the magic before the first.
    Bytes(Vec<u8>),
    /// Nothing within the timeout.
    None,
    /// Nothing, and nothing will come.
    Ended,
}

/// How far a pipe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is in use.
    Open,
    /// It was closed on this side before it ended by itself.
    Closed,
    /// It ended by itself; what it said last may still be waiting.
    Ended(Ended),
}

#[derive(Default)]
struct Inbox {
    waiting: Vec<u8>,
    closed: bool,
}

struct Shared {
    connection: Connection,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    /// The magic and HELLO, until they are taken.
    greeting: Mutex<Option<Vec<u8>>>,
}

/// A connection with its two streams of bytes. All of it may be used from many threads; dropping it closes it.
pub struct Pipe {
    shared: Arc<Shared>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

impl Pipe {
    /// Starts a bridge in this process. The error is that no thread can be had.
    pub fn open(host: Arc<dyn Host>) -> Result<Self> {
        let connection = Connection::open(host);
        let mut greeting = MAGIC.to_vec();
        let _ = bytes::take(&connection, Some(Duration::ZERO), &mut greeting);
        let shared = Arc::new(Shared {
            connection,
            inbox: Mutex::default(),
            changed: Condvar::new(),
            greeting: Mutex::new(Some(greeting)),
        });
        let reader = shared.clone();
        let reader = std::thread::Builder::new()
            .name("lean-port".into())
            .spawn(move || reader.read())
            .map_err(|e| Error::Busy { what: format!("no thread could be started ({e})") })?;
        Ok(Self { shared, reader: Mutex::new(Some(reader)) })
    }

    /// Sends bytes of the host's stream, cut anywhere. Pieces from several threads come in the order of their calls.
    pub fn send(&self, data: &[u8], timeout: Option<Duration>) -> Result<Sent> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut inbox = self.shared.inbox();
        loop {
            if inbox.closed || self.shared.connection.ended().is_some() {
                return Ok(Sent::Ended);
            }
            if inbox.waiting.is_empty() || inbox.waiting.len() + data.len() <= WAITING_BYTES {
                break;
            }
            inbox = match wait(&self.shared.changed, inbox, deadline) {
                Some(inbox) => inbox,
                None => return Ok(Sent::None),
            };
        }
        let refused =
            |_| Error::OutOfMemory { wanted: data.len() as u64, what: "bytes that were sent".into() };
        inbox.waiting.try_reserve(data.len()).map_err(refused)?;
        inbox.waiting.extend_from_slice(data);
        self.shared.changed.notify_all();
        Ok(Sent::All)
    }

    /// The next bytes of the bridge's stream. Several threads get different ones.
    pub fn recv(&self, timeout: Option<Duration>) -> Received {
        if let Some(greeting) = self.shared.greeting().take() {
            return Received::Bytes(greeting);
        }
        let mut out = Vec::new();
        match bytes::take(&self.shared.connection, timeout, &mut out) {
            Ok(true) => Received::Bytes(out),
            Ok(false) => Received::None,
            Err(()) => Received::Ended,
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.shared.connection.ended() {
            Some(ended) => Phase::Ended(ended),
            None if self.shared.inbox().closed => Phase::Closed,
            None => Phase::Open,
        }
    }

    /// Ends it as the end of stdin ends a process: cancels what runs, throws away what was not received, wakes every
    /// call on it, and waits until its threads have ended, within one step of the engine. Does nothing a second time,
    /// but wait as well. Must not be called in a thread of the pipe itself, such as that of a log message.
    pub fn close(&self) {
        self.shared.hang_up();
        let mut reader = self.reader.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(thread) = reader.take() {
            let _ = thread.join();
        }
        self.shared.connection.join();
        // A worker may have made a model or a session meanwhile.
        self.shared.connection.close();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn greeting(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.greeting.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn hang_up(&self) {
        let mut inbox = self.inbox();
        inbox.closed = true;
        inbox.waiting = Vec::new();
        drop(inbox);
        self.changed.notify_all();
        self.greeting().take();
        self.connection.close();
    }

    /// The reader's thread: feeds the connection until either side ends.
    fn read(&self) {
        let feeding = catch_unwind(AssertUnwindSafe(|| {
            let mut reader = FrameReader::new(self.connection.max_frame());
            while let Some(waiting) = self.waiting() {
                bytes::feed(&self.connection, &mut reader, &waiting);
                if self.connection.ended().is_some() {
                    return;
                }
            }
        }));
        if feeding.is_err() {
            self.connection.crashed("the thread that reads a port panicked");
        }
        // Whoever waits to send has to see that nothing is taken any more.
        self.inbox().waiting = Vec::new();
        self.changed.notify_all();
    }

    /// All bytes that wait; `None` once it was closed.
    fn waiting(&self) -> Option<Vec<u8>> {
        let mut inbox = self.inbox();
        while inbox.waiting.is_empty() && !inbox.closed {
            inbox = self.changed.wait(inbox).unwrap_or_else(|e| e.into_inner());
        }
        if inbox.closed {
            return None;
        }
        let waiting = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        self.changed.notify_all();
        Some(waiting)
    }
}

/// Waits for a change; `None` once the deadline has passed.
fn wait<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'a, T>> {
    let Some(deadline) = deadline else {
        return Some(changed.wait(guard).unwrap_or_else(|e| e.into_inner()));
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return None;
    }
    Some(changed.wait_timeout(guard, left).unwrap_or_else(|e| e.into_inner()).0)
}
