//! The protocol over the bridge's pipes: handshake, requests and their places, and the end. One thread reads frames and hands
//! them to their requests, one writes; events are handled by whoever made the call.

use crate::cancel::CancelToken;
use crate::pending::{Incoming, Pending};
use crate::process::lock;
use crate::request::Limits;
use crate::{Error, Exit, Process, Result, SpawnOptions};
use lean_protocol::messages as m;
use lean_protocol::{
    decode_head, Flags, Frame, FrameReader, Message, CHUNK_BYTES, MAX_FRAME_DEFAULT, MAX_FRAME_FLOOR,
};
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The minor that this client speaks.
pub(crate) const MINOR: u32 = 0;
/// Long enough for a cold disk and a virus scanner.
const GREETING_PATIENCE: Duration = Duration::from_secs(20);
/// How long a bridge that broke the protocol, or closed its stdout, may take to end by itself.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a bridge may take to end after it was asked to.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
/// How often a call that waits for its place looks at its token and its deadline.
const PLACE_PAUSE: Duration = Duration::from_millis(20);

/// Room in a frame for a chunk's head.
const CHUNK_HEAD_BYTES: usize = 32;

/// The bridge's own limit of requests that are open at once, which only the end may take up fully.
const OPEN_MAX: usize = 64;
/// Those that always end, such as the checkpoint of a stream that is not read on.
pub(crate) const SHORT: usize = OPEN_MAX - 1;
/// Those that stay open for as long as their caller likes leave a few places to the short ones.
pub(crate) const LONG: usize = OPEN_MAX - 8;

/// What the writer does.
enum Job {
    Write(Vec<u8>, Option<Sender<()>>),
    End,
}

struct Entry {
    /// Whoever waits for it; nobody for handles that were dropped.
    waiting: Option<Sender<Incoming>>,
    /// Events that the bridge may still send.
    credit: u32,
}

#[derive(Default)]
struct State {
    requests: HashMap<u32, Entry>,
    /// Places taken by requests that are about to be sent.
    reserved: usize,
    /// What nobody waits for and there was no place for yet: kind and head.
    later: VecDeque<(u16, Vec<u8>)>,
    last_id: u32,
    max_frame: u32,
    hello: Option<m::Hello>,
    /// Asked to end: its exit is no accident.
    closing: bool,
    over: Option<Error>,
    /// The reader has told everybody.
    dead: bool,
}

struct Shared {
    process: Process,
    credit: u32,
    state: Mutex<State>,
    changed: Condvar,
    jobs: Sender<Job>,
}

/// A spoken-to bridge. It ends with the last handle to it.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

impl Connection {
    /// Starts the bridge and waits for its greeting.
    pub fn open(options: &SpawnOptions) -> Result<(Arc<Self>, m::Hello)> {
        let (process, input, output) = Process::start(options)?;
        let (jobs, to_write) = channel();
        let state = State { max_frame: MAX_FRAME_DEFAULT, ..State::default() };
        let credit = options.credit.max(1);
        let shared = Shared { process, credit, state: Mutex::new(state), changed: Condvar::new(), jobs };
        let shared = Arc::new(shared);
        let failed =
            |e| Error::exited(Exit::otherwise(format!("cannot be spoken to, for want of a thread: {e}")));
        let writer = thread::Builder::new().name("lean-writer".into());
        writer.spawn(move || write(input, &to_write)).map_err(failed)?;
        let reading = shared.clone();
        let reader = thread::Builder::new().name("lean-reader".into());
        let reader = reader.spawn(move || reading.read(output)).map_err(failed)?;
        let connection = Arc::new(Self { shared, reader: Some(reader) });
        let hello = connection.greeting()?;
        Ok((connection, hello))
    }

    fn greeting(&self) -> Result<m::Hello> {
        let late = Instant::now() + GREETING_PATIENCE;
        let mut state = self.shared.lock();
        loop {
            if let Some(over) = state.over.clone().filter(|_| state.dead) {
                return Err(over);
            }
            if let Some(hello) = &state.hello {
                return Ok(hello.clone());
            }
            let left = late.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.shared.process.kill();
                let how = format!("did not greet within {GREETING_PATIENCE:?}");
                return Err(Error::exited(Exit::otherwise(how)));
            }
            state = self.shared.wait(state, Some(left));
        }
    }

    pub fn pid(&self) -> u32 {
        self.shared.process.pid()
    }

    pub fn is_alive(&self) -> bool {
        self.shared.lock().over.is_none()
    }

    /// Sends a request, once there is a place for it among so many.
    pub fn call<M: Message>(
        self: &Arc<Self>,
        message: &M,
        tail: &[u8],
        places: usize,
        limits: &Limits,
    ) -> Result<Pending> {
        let deadline = limits.timeout.map(|t| Instant::now() + t);
        self.fits(message, tail)?;
        self.shared.enter(1, places, limits.cancel.as_ref(), deadline)?;
        self.send_reserved(message, tail, limits.cancel.clone(), deadline)
    }

    /// Takes so many places at once, for [`Connection::send_reserved`].
    pub fn reserve(&self, count: usize) -> Result<()> {
        self.shared.enter(count, SHORT, None, None)
    }

    /// Gives back places that were not used.
    pub fn unreserve(&self, count: usize) {
        self.shared.lock().reserved -= count;
        self.shared.changed.notify_all();
    }

    /// Whether the message fits a frame.
    pub fn fits<M: Message>(&self, message: &M, tail: &[u8]) -> Result<()> {
        let body = lean_protocol::encode_head(message, MINOR).len() + tail.len();
        let most = self.shared.lock().max_frame as usize;
        if body > most {
            return Err(Error::invalid(format!(
                "the request has {body} bytes; at most {most} fit a frame: a long context can be appended to a session in parts"
            )));
        }
        Ok(())
    }

    /// Sends a request whose place has been taken.
    pub fn send_reserved<M: Message>(
        self: &Arc<Self>,
        message: &M,
        tail: &[u8],
        cancel: Option<CancelToken>,
        deadline: Option<Instant>,
    ) -> Result<Pending> {
        let (waiting, events) = channel();
        let joined = cancel.as_ref().map(|token| token.join(waiting.clone()));
        let mut state = self.shared.lock();
        state.reserved -= 1;
        if let Some(over) = state.over.clone() {
            drop(state);
            if let (Some(token), Some(number)) = (&cancel, joined) {
                token.leave(number);
            }
            return Err(over);
        }
        let id = state.admit(Some(waiting), self.shared.credit);
        // Under the lock: an id's frames go out in the order of the ids.
        self.shared.send(&Frame::new(id, Flags::CRITICAL, message, tail, MINOR), None);
        drop(state);
        Ok(Pending::new(self.clone(), id, events, cancel.zip(joined), deadline))
    }

    /// Sends a request that nobody waits for, now or when there is a place.
    pub fn post<M: Message>(&self, message: &M) {
        let mut state = self.shared.lock();
        if state.over.is_none() {
            state.later.push_back((M::KIND, lean_protocol::encode_head(message, MINOR)));
            self.shared.post_later(&mut state);
        }
    }

    /// Sends a frame of an open request; the receiver hears when it has been written.
    pub fn send_more<M: Message>(&self, id: u32, flags: Flags, message: &M, tail: &[u8]) -> Receiver<()> {
        let (written, wait) = channel();
        self.shared.send(&Frame::new(id, flags, message, tail, MINOR), Some(written));
        wait
    }

    pub fn cancel(&self, id: u32) {
        let _ = self.send_more(id, Flags::default(), &m::Cancel {}, b"");
    }

    /// Bytes of a blob that go into one frame.
    pub fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES.min(self.shared.lock().max_frame as usize - CHUNK_HEAD_BYTES)
    }

    pub fn initial_credit(&self) -> u32 {
        self.shared.credit
    }

    /// Lets the bridge send more events.
    pub fn give_credit(&self, id: u32, events: u32) {
        if let Some(entry) = self.shared.lock().requests.get_mut(&id) {
            entry.credit += events;
        }
        let _ = self.send_more(id, Flags::default(), &m::Credit { events }, b"");
    }

    /// Ends everything in good order; from now on every call fails.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        if state.over.is_none() {
            state.closing = true;
            let id = state.admit(None, 0);
            self.shared.send(&Frame::new(id, Flags::CRITICAL, &m::Shutdown {}, b"", MINOR), None);
            state.over = Some(Error::exited(Exit::otherwise("was closed by this program")));
        }
        drop(state);
        let _ = self.shared.jobs.send(Job::End);
        self.shared.bury();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        let _ = self.shared.jobs.send(Job::End);
        self.shared.bury();
        // Never from the reader itself: it holds no connection.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl State {
    fn open(&self) -> usize {
        self.requests.len() + self.reserved
    }

    /// A new id, which is open from now on.
    fn admit(&mut self, waiting: Option<Sender<Incoming>>, credit: u32) -> u32 {
        loop {
            self.last_id = self.last_id % 0x7fff_ffff + 1;
            if !self.requests.contains_key(&self.last_id) {
                break;
            }
        }
        self.requests.insert(self.last_id, Entry { waiting, credit });
        self.last_id
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Option<Duration>) -> MutexGuard<'a, State> {
        match most {
            Some(most) => self.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn send(&self, frame: &Frame, written: Option<Sender<()>>) {
        let mut bytes = Vec::new();
        frame.encode_into(&mut bytes);
        // The writer is gone only where the bridge is, and the reader tells.
        let _ = self.jobs.send(Job::Write(bytes, written));
    }

    fn enter(
        &self,
        count: usize,
        places: usize,
        cancel: Option<&CancelToken>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let pause = (cancel.is_some() || deadline.is_some()).then_some(PLACE_PAUSE);
        let mut state = self.lock();
        loop {
            if let Some(over) = &state.over {
                return Err(over.clone());
            }
            if cancel.is_some_and(CancelToken::is_cancelled) {
                return Err(Error::cancelled("cancelled"));
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Err(Error::timeout());
            }
            if state.open() + count <= places {
                state.reserved += count;
                return Ok(());
            }
            state = self.wait(state, pause);
        }
    }

    fn post_later(&self, state: &mut State) {
        while state.open() < SHORT {
            let Some((kind, head)) = state.later.pop_front() else { return };
            let id = state.admit(None, 0);
            self.send(&Frame::from_parts(id, kind, Flags::CRITICAL, &head, b""), None);
        }
    }

    /// Takes frames until the connection ends, and then tells everybody.
    fn read(&self, output: ChildStdout) {
        let failure = self.frames(output).err();
        // What is no protocol cannot be understood any further: the bridge has to go.
        let _ = self.jobs.send(Job::End);
        let exit = self.process.wait(EXIT_PATIENCE);
        let clean = exit.status == Some(0);
        let error = match failure {
            Some(mut error) => {
                error.message = format!("{}; {exit}", error.message);
                error.exit = Some(Box::new(exit));
                error
            }
            None => Error::exited(exit),
        };
        let mut state = self.lock();
        let pending = match state.closing && clean {
            true => Error::cancelled("cancelled: the engine was closed"),
            false => error.clone(),
        };
        state.over.get_or_insert(error);
        state.dead = true;
        for (_, entry) in state.requests.drain() {
            if let Some(waiting) = entry.waiting {
                let _ = waiting.send(Incoming::End(Err(pending.clone())));
            }
        }
        self.changed.notify_all();
    }

    /// Handles frames up to the end of the stream, or to an error that ends the connection.
    fn frames(&self, mut output: ChildStdout) -> Result<()> {
        let wrong = |e| Error::protocol(format!("the bridge does not speak the protocol: {e}"));
        let mut reader = FrameReader::with_magic(MAX_FRAME_DEFAULT);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = match output.read(&mut buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                // It ended, perhaps inside a frame: how it did says more.
                Ok(0) | Err(_) => return Ok(()),
                Ok(n) => n,
            };
            reader.push(&buffer[..n]);
            while let Some(frame) = reader.next_frame().map_err(wrong)? {
                self.frame(frame)?;
                reader.set_max_frame(self.lock().max_frame);
            }
        }
    }

    fn frame(&self, frame: Frame) -> Result<()> {
        if frame.request == 0 {
            return self.control(&frame);
        }
        let mut state = self.lock();
        if frame.flags.has(Flags::END) {
            let Some(entry) = state.requests.remove(&frame.request) else { return Ok(()) };
            self.post_later(&mut state);
            drop(state);
            self.changed.notify_all();
            if let Some(waiting) = entry.waiting {
                let _ = waiting.send(Incoming::End(answer(frame)?));
            }
            return Ok(());
        }
        let Some(entry) = state.requests.get_mut(&frame.request) else { return Ok(()) };
        if entry.credit == 0 {
            return Err(Error::protocol("the bridge sent more events than there was credit for"));
        }
        entry.credit -= 1;
        if let Some(waiting) = &entry.waiting {
            let _ = waiting.send(Incoming::Event(frame));
        }
        Ok(())
    }

    /// A frame about the connection.
    fn control(&self, frame: &Frame) -> Result<()> {
        let wrong = |e| Error::protocol(format!("the bridge does not speak the protocol: {e}"));
        match frame.kind {
            m::Failed::KIND => {
                let failed = decode_head(frame.head(), MINOR).map_err(wrong)?;
                Err(Error::of_frame(failed, frame.tail()))
            }
            m::Hello::KIND => self.greeted(m::decode_hello(frame.head()).map_err(wrong)?),
            _ => Ok(()),
        }
    }

    fn greeted(&self, hello: m::Hello) -> Result<()> {
        let mut state = self.lock();
        if state.hello.is_some() {
            return Err(Error::protocol("the bridge greeted twice"));
        }
        if hello.major != lean_protocol::MAJOR || !(hello.minor_min..=hello.minor_max).contains(&MINOR) {
            let message = format!(
                "this client speaks protocol {}.{MINOR}, the bridge ({}) {}.{} to {}.{}",
                lean_protocol::MAJOR,
                hello.engine,
                hello.major,
                hello.minor_min,
                hello.major,
                hello.minor_max
            );
            return Err(Error::new(601, "version", lean_protocol::Class::Protocol, message));
        }
        if hello.max_frame < MAX_FRAME_FLOOR {
            return Err(Error::protocol(format!(
                "the bridge takes frames of {} bytes only",
                hello.max_frame
            )));
        }
        let max_frame = (hello.max_frame > MAX_FRAME_DEFAULT).then_some(MAX_FRAME_DEFAULT);
        state.max_frame = hello.max_frame.min(MAX_FRAME_DEFAULT);
        state.hello = Some(hello);
        let ack = m::HelloAck { minor: MINOR, credit: self.credit, max_frame };
        self.send(&Frame::new(0, Flags::default(), &ack, b"", MINOR), None);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until the bridge is gone; after the patience it is killed.
    fn bury(&self) {
        let late = Instant::now() + CLOSE_PATIENCE;
        let mut state = self.lock();
        while !state.dead {
            let left = late.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.process.kill();
            }
            state = self.wait(state, (!left.is_zero()).then_some(left));
        }
    }
}

/// The end of a request: its answer, or its error. The outer error ends the connection.
fn answer(frame: Frame) -> Result<Result<Frame>> {
    let wrong = |e| Error::protocol(format!("the bridge does not speak the protocol: {e}"));
    if frame.kind == m::Failed::KIND {
        let failed = decode_head(frame.head(), MINOR).map_err(wrong)?;
        return Ok(Err(Error::of_frame(failed, frame.tail())));
    }
    if m::spec(frame.kind).is_none() {
        let message = format!("the bridge answered with kind {:#x}, which is unknown here", frame.kind);
        return Ok(Err(Error::new(602, "unknown_kind", lean_protocol::Class::Protocol, message)));
    }
    Ok(Ok(frame))
}

/// Writes what there is to write, until it is told to end, by closing the bridge's stdin.
fn write(mut input: ChildStdin, jobs: &Receiver<Job>) {
    while let Ok(Job::Write(bytes, written)) = jobs.recv() {
        if input.write_all(&bytes).and_then(|()| input.flush()).is_err() {
            // Nobody reads any more: the reader sees the end and tells.
            return;
        }
        drop(written);
    }
}
