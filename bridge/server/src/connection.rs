//! One host's connection: handshake, open requests, dispatch.

use crate::failure::{Failure, Outcome};
use crate::handles::Tables;
use crate::ops;
use crate::outbox::{Closed, Outbox};
use crate::port::Host;
use crate::request::Request;
use crate::turn::{self, Signal};
use lean_engine::Error;
use lean_protocol::messages as m;
use lean_protocol::{
    decode_head, encode_head, Flags, Frame, Message, WireError, MAJOR, MAX_FRAME_DEFAULT, MAX_FRAME_FLOOR,
    MINOR_MAX, MINOR_MIN,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(target_arch = "wasm32"))]
use std::thread::JoinHandle;
use std::time::Duration;
#[cfg(not(target_arch = "wasm32"))]
use std::time::Instant;

/// Requests that may be open at once; each running one has a thread.
pub(crate) const OPEN_REQUESTS_MAX: usize = 64;

/// Why a connection ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The host asked for it.
    Shutdown,
    /// The host does not speak this protocol; the bridge exits with status 2.
    Protocol,
}

/// What the handshake settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub minor: u32,
    pub credit: u32,
    pub max_frame: u32,
}

#[derive(Default)]
struct State {
    agreed: Option<Agreed>,
    open: HashMap<u32, Arc<Request>>,
    workers: usize,
    /// Requests whose ids are free already and whose last frames are not in the outbox yet.
    ending: usize,
    /// The workers' threads, those that have ended too until the next begins.
    #[cfg(not(target_arch = "wasm32"))]
    threads: Vec<JoinHandle<()>>,
    /// No new requests: the end has begun.
    closing: bool,
    /// The SHUTDOWN request, whose answer is the last frame.
    shutdown: Option<u32>,
    ended: Option<Ended>,
}

pub(crate) struct Inner {
    pub host: Arc<dyn Host>,
    pub tables: Tables,
    outbox: Outbox,
    state: Mutex<State>,
    changed: Signal,
}

/// A connection; dropping it cancels everything.
pub struct Connection(Arc<Inner>);

impl Connection {
    /// Opens a connection; its first frame, HELLO, is ready to be taken.
    pub fn open(host: Arc<dyn Host>) -> Self {
        Self::open_with(host, Outbox::default())
    }

    /// The same for a host in the same process: frames are handed to `sink` as they are made, and there are none for
    /// [`Connection::next`]. `sink` is called in the middle of requests, and must not submit anything.
    pub fn with_sink(host: Arc<dyn Host>, sink: impl Fn(Frame) + Send + Sync + 'static) -> Self {
        Self::open_with(host, Outbox::with_sink(Box::new(sink)))
    }

    fn open_with(host: Arc<dyn Host>, outbox: Outbox) -> Self {
        let hello = m::Hello {
            major: MAJOR,
            minor_min: MINOR_MIN,
            minor_max: MINOR_MAX,
            engine: host.name(),
            max_frame: MAX_FRAME_DEFAULT,
            capabilities: host.capabilities(),
        };
        let inner = Inner {
            host,
            tables: Tables::new(),
            outbox,
            state: Mutex::default(),
            changed: Signal::default(),
        };
        let _ = inner.outbox.push(Frame::new(0, Flags(0), &hello, b"", MINOR_MAX));
        Self(Arc::new(inner))
    }

    /// Takes a frame from the host. Never runs the engine and never waits for it; after the end, does nothing.
    pub fn submit(&self, frame: Frame) {
        if self.ended().is_some() {
            return;
        }
        if let Err(failure) = self.0.dispatch(frame) {
            self.0.fail(failure);
        }
    }

    /// Reports bytes that were no frame: the connection ends with that error.
    pub fn reject(&self, error: WireError) {
        self.0.fail(error.into());
    }

    /// Reports that what carries the frames cannot go on: the connection ends with that error.
    pub fn crashed(&self, what: &str) {
        self.0.fail(Error::Panic(what.into()).into());
    }

    /// The next frame for the host: `Ok(None)` after the timeout, `Err(())` once there will be none.
    #[allow(clippy::result_unit_err)]
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Frame>, ()> {
        self.0.outbox.pop(timeout).map_err(|Closed| ())
    }

    /// The largest body that either side may send at this point.
    pub fn max_frame(&self) -> u32 {
        self.0.lock().agreed.map_or(MAX_FRAME_DEFAULT, |a| a.max_frame)
    }

    /// Sets the flag that ends a request and does nothing else, so that it can be called in the middle of any: for a
    /// host in the same process that cannot be heard then. Its CANCEL is to follow.
    pub fn flag(&self, request: u32) {
        if let Some(request) = self.0.request(request) {
            request.cancel.cancel();
        }
    }

    /// Whether and why the connection ended by itself.
    pub fn ended(&self) -> Option<Ended> {
        self.0.lock().ended
    }

    /// The host is gone: cancels everything and forgets all handles.
    pub fn close(&self) {
        // First of all, so that none of what is cancelled next is said to nobody.
        self.0.outbox.close();
        self.0.cancel_all();
        self.0.tables.clear();
    }

    /// Waits until no worker runs any more; says whether that came true in time.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut s = self.0.lock();
        while s.workers > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            s = self.0.changed.block_for(s, left);
        }
        true
    }

    /// Waits until no worker's thread is left. The connection must have been closed, or this may wait for good; not
    /// from a worker itself.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn join(&self) {
        loop {
            let threads = std::mem::take(&mut self.0.lock().threads);
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// An error here is fatal for the connection.
    fn dispatch(self: &Arc<Self>, frame: Frame) -> Outcome<()> {
        let agreed = self.lock().agreed;
        let Some(agreed) = agreed else { return self.handshake(&frame) };
        let minor = agreed.minor;
        match frame.kind {
            m::Cancel::KIND => {
                decode_head::<m::Cancel>(frame.head(), minor)?;
                if let Some(r) = self.request(frame.request) {
                    self.cancel_one(&r);
                }
                Ok(())
            }
            m::Credit::KIND => {
                let credit = decode_head::<m::Credit>(frame.head(), minor)?;
                if let Some(r) = self.request(frame.request) {
                    r.add_credit(credit.events);
                }
                Ok(())
            }
            m::Chunk::KIND => {
                let chunk = decode_head::<m::Chunk>(frame.head(), minor)?;
                if let Some(r) = self.request(frame.request) {
                    ops::checkpoint::upload_chunk(self, r, chunk, &frame, agreed);
                }
                Ok(())
            }
            m::Load::KIND => self.start_long(agreed, frame, ops::model::load),
            m::Unload::KIND => self.start(agreed, frame, ops::model::unload),
            m::ModelInfo::KIND => self.start(agreed, frame, ops::model::info),
            m::Generate::KIND => self.start_long(agreed, frame, ops::generate::generate),
            m::GenerateBranch::KIND => self.generate_branch(agreed, frame),
            m::ModelStats::KIND => self.start(agreed, frame, ops::model::stats),
            m::ModelPrefixCache::KIND => self.start(agreed, frame, ops::model::prefix_cache),
            m::SessionCut::KIND => self.start_long(agreed, frame, ops::session::cut),
            m::SessionOpen::KIND => self.start(agreed, frame, ops::session::open),
            m::SessionAppend::KIND => self.start_long(agreed, frame, ops::session::append),
            m::SessionFork::KIND => self.start(agreed, frame, ops::session::fork),
            m::SessionClose::KIND => self.start(agreed, frame, ops::session::close),
            m::CheckpointTake::KIND => self.checkpoint_take(agreed, frame),
            m::CheckpointSave::KIND => self.start_long(agreed, frame, ops::checkpoint::save),
            m::CheckpointLoad::KIND => self.checkpoint_load(agreed, frame),
            m::CheckpointDrop::KIND => self.start(agreed, frame, ops::checkpoint::forget),
            m::Shutdown::KIND => self.shutdown(agreed, frame),
            m::AdapterLoad::KIND => self.start(agreed, frame, ops::adapter::load),
            m::AdapterDrop::KIND => self.start(agreed, frame, ops::adapter::forget),
            m::SessionAdapt::KIND => self.start_long(agreed, frame, ops::adapter::adapt),
            m::HelloAck::KIND => Err(Failure::protocol("a second HELLO_ACK")),
            kind if frame.flags.has(Flags::CRITICAL) => match self.register(agreed, &frame)? {
                Some(request) => {
                    self.finish(&request, Err(Failure::unknown_kind(kind)));
                    Ok(())
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn handshake(&self, frame: &Frame) -> Outcome<()> {
        if frame.kind != m::HelloAck::KIND || frame.request != 0 {
            return Err(Failure::protocol(format!(
                "the first frame must be HELLO_ACK on request 0, not kind {} on request {}",
                frame.kind, frame.request
            )));
        }
        let ack = m::decode_hello_ack(frame.head())?;
        if !(MINOR_MIN..=MINOR_MAX).contains(&ack.minor) {
            return Err(Failure::version(format!(
                "the host wants protocol {MAJOR}.{}, this bridge ({}) speaks {MAJOR}.{MINOR_MIN} to {MAJOR}.{MINOR_MAX}",
                ack.minor,
                self.host.name()
            )));
        }
        let max_frame = ack.max_frame.unwrap_or(MAX_FRAME_DEFAULT);
        if !(MAX_FRAME_FLOOR..=MAX_FRAME_DEFAULT).contains(&max_frame) {
            return Err(Failure::protocol(format!(
                "max_frame {max_frame} is outside {MAX_FRAME_FLOOR}..={MAX_FRAME_DEFAULT}"
            )));
        }
        self.lock().agreed = Some(Agreed { minor: ack.minor, credit: ack.credit, max_frame });
        Ok(())
    }

    /// The open request with this id, if there is one.
    pub fn request(&self, id: u32) -> Option<Arc<Request>> {
        self.lock().open.get(&id).cloned()
    }

    /// Opens a request; `None` if it was refused (and answered) at once.
    pub fn register(&self, agreed: Agreed, frame: &Frame) -> Outcome<Option<Arc<Request>>> {
        if frame.request == 0 {
            return Err(Failure::protocol(format!("a request of kind {} on request 0", frame.kind)));
        }
        let request = Arc::new(Request::new(frame.request, agreed.credit, self.host.cancel().child()));
        let refused = {
            let mut s = self.lock();
            if s.open.contains_key(&frame.request) {
                return Err(Failure::protocol(format!("request {} is open already", frame.request)));
            }
            if s.closing {
                Some(Error::Cancelled)
            } else if s.open.len() >= OPEN_REQUESTS_MAX {
                Some(Error::Busy { what: format!("{OPEN_REQUESTS_MAX} requests are open") })
            } else {
                s.open.insert(frame.request, request.clone());
                None
            }
        };
        match refused {
            None => Ok(Some(request)),
            Some(e) => {
                self.finish(&request, Err(e.into()));
                Ok(None)
            }
        }
    }

    fn start<M: Message + Send + 'static>(
        self: &Arc<Self>,
        agreed: Agreed,
        frame: Frame,
        run: fn(&Job, M) -> Outcome<Answer>,
    ) -> Outcome<()> {
        self.start_long(agreed, frame, async move |job: &Job, message: M| run(job, message))
    }

    /// The same for what may have to wait.
    fn start_long<M: Message + Send + 'static>(
        self: &Arc<Self>,
        agreed: Agreed,
        frame: Frame,
        run: impl AsyncFnOnce(&Job, M) -> Outcome<Answer> + Send + 'static,
    ) -> Outcome<()> {
        let message = decode_head::<M>(frame.head(), agreed.minor)?;
        if let Some(request) = self.register(agreed, &frame)? {
            let job = Job { inner: self.clone(), request, agreed, frame };
            job.spawn(async move |job: &Job| run(job, message).await);
        }
        Ok(())
    }

    fn generate_branch(self: &Arc<Self>, agreed: Agreed, frame: Frame) -> Outcome<()> {
        let branch = decode_head::<m::GenerateBranch>(frame.head(), agreed.minor)?;
        let Some(request) = self.register(agreed, &frame)? else {
            // The others would wait for it.
            ops::generate::refuse(self, &branch);
            return Ok(());
        };
        let job = Job { inner: self.clone(), request, agreed, frame };
        job.spawn(async move |job: &Job| ops::generate::branch(job, branch).await);
        Ok(())
    }

    fn checkpoint_take(self: &Arc<Self>, agreed: Agreed, frame: Frame) -> Outcome<()> {
        let take = decode_head::<m::CheckpointTake>(frame.head(), agreed.minor)?;
        let Some(generation) = take.generation else {
            return self.start(agreed, frame, ops::session::checkpoint);
        };
        let Some(request) = self.register(agreed, &frame)? else { return Ok(()) };
        let invalid = |why| Error::invalid("generation", why);
        let refused = match self.request(generation) {
            _ if take.session.is_some() => {
                Some((request, invalid("either a session or a generation, not both")))
            }
            Some(g) => {
                let what = "the request, which is no generation or has not begun its value".to_string();
                g.hand_over(request).err().map(|r| (r, Error::Busy { what }))
            }
            None => Some((request, invalid("it has ended"))),
        };
        if let Some((request, error)) = refused {
            self.finish(&request, Err(error.into()));
        }
        Ok(())
    }

    fn checkpoint_load(self: &Arc<Self>, agreed: Agreed, frame: Frame) -> Outcome<()> {
        let load = decode_head::<m::CheckpointLoad>(frame.head(), agreed.minor)?;
        if load.path.is_some() {
            return self.start(agreed, frame, ops::checkpoint::load_file);
        }
        if let Some(request) = self.register(agreed, &frame)? {
            match ops::checkpoint::upload(load.model, &frame) {
                Ok(upload) => request.set_upload(upload),
                Err(failure) => self.finish(&request, Err(failure)),
            }
        }
        Ok(())
    }

    fn shutdown(self: &Arc<Self>, agreed: Agreed, frame: Frame) -> Outcome<()> {
        decode_head::<m::Shutdown>(frame.head(), agreed.minor)?;
        let Some(request) = self.register(agreed, &frame)? else { return Ok(()) };
        let others: Vec<_> = {
            let mut s = self.lock();
            s.closing = true;
            s.shutdown = Some(request.id);
            s.open.values().filter(|r| r.id != request.id).cloned().collect()
        };
        others.iter().for_each(|r| self.cancel_one(r));
        let job = Job { inner: self.clone(), request, agreed, frame };
        job.spawn(async |job: &Job| {
            let inner = &job.inner;
            let mut s = inner.lock();
            while s.open.len() > 1 || s.ending > 0 {
                s = inner.changed.wait(&inner.state, s).await;
            }
            drop(s);
            job.inner.tables.clear();
            Ok(job.answer(&m::Ok {}, Vec::new()))
        });
        Ok(())
    }

    /// Cancels a request. One that is still being uploaded has no worker to notice, so it ends here.
    fn cancel_one(&self, request: &Arc<Request>) {
        request.cancel();
        if request.take_upload().is_some() {
            self.finish(request, Err(Error::Cancelled.into()));
        }
    }

    fn cancel_all(&self) {
        let open: Vec<_> = {
            let mut s = self.lock();
            s.closing = true;
            s.open.values().cloned().collect()
        };
        open.iter().for_each(|r| r.cancel());
    }

    /// Ends the connection with an error on request 0.
    fn fail(&self, failure: Failure) {
        let minor = {
            let mut s = self.lock();
            s.ended = Some(s.ended.unwrap_or(Ended::Protocol));
            s.agreed.map_or(MINOR_MAX, |a| a.minor)
        };
        let frame = Frame::new(0, Flags::END | Flags::ERROR, &failure.head(), &failure.tail(), minor);
        self.outbox.finish(Some(frame));
        self.cancel_all();
    }

    /// Ends a request: its END frame is the last the host sees of it, and its id is free by then.
    pub fn finish(&self, request: &Arc<Request>, outcome: Outcome<Answer>) {
        for take in request.close_takes() {
            self.finish(&take, Err(Error::invalid("generation", "it has ended").into()));
        }
        let (agreed, last) = {
            let mut s = self.lock();
            let last = s.shutdown == Some(request.id);
            if last {
                s.ended = Some(s.ended.unwrap_or(Ended::Shutdown));
            }
            if s.open.get(&request.id).is_some_and(|r| Arc::ptr_eq(r, request)) {
                s.open.remove(&request.id);
            }
            s.ending += 1;
            (s.agreed, last)
        };
        let (minor, max) = agreed.map_or((MINOR_MAX, MAX_FRAME_DEFAULT), |a| (a.minor, a.max_frame));
        let frame = match outcome {
            Ok(answer) if answer.len() > max as usize => {
                let what = format!("the answer, in frames of at most {max} bytes");
                error_frame(
                    request.id,
                    &Error::OutOfMemory { wanted: answer.len() as u64, what }.into(),
                    minor,
                    max,
                )
            }
            Ok(answer) => answer.into_frame(request.id),
            Err(failure) => error_frame(request.id, &failure, minor, max),
        };
        if last {
            self.outbox.finish(Some(frame));
        } else {
            let _ = self.outbox.push(frame);
        }
        self.lock().ending -= 1;
        self.changed.notify_all();
    }

    /// Sends an event; the caller has spent the credit.
    pub fn send(&self, frame: Frame) -> Result<(), Error> {
        self.outbox.push(frame).map_err(|Closed| Error::Cancelled)
    }
}

/// An ERROR frame; numbers that do not fit are left out.
fn error_frame(id: u32, failure: &Failure, minor: u32, max: u32) -> Frame {
    let flags = Flags::END | Flags::ERROR;
    let frame = Frame::new(id, flags, &failure.head(), &failure.tail(), minor);
    if frame.body_len() <= max as usize {
        frame
    } else {
        Frame::new(id, flags, &failure.head(), b"", minor)
    }
}

/// The last message of a request that succeeded.
pub(crate) struct Answer {
    kind: u16,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Answer {
    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }
    fn into_frame(self, id: u32) -> Frame {
        Frame::from_parts(id, self.kind, Flags::END, &self.head, &self.tail)
    }
}

/// A request and the thread that works on it.
pub(crate) struct Job {
    pub inner: Arc<Inner>,
    pub request: Arc<Request>,
    pub agreed: Agreed,
    pub frame: Frame,
}

impl Job {
    /// Runs the work in its turn; whatever happens there, the request ends.
    pub fn spawn(self, work: impl AsyncFnOnce(&Job) -> Outcome<Answer> + Send + 'static) {
        self.inner.lock().workers += 1;
        let (inner, request) = (self.inner.clone(), self.request.clone());
        let run = async move || {
            let outcome = turn::caught(work(&self))
                .await
                .unwrap_or_else(|panic| Err(Error::Panic(panic_message(panic.as_ref())).into()));
            self.inner.finish(&self.request, outcome);
            self.inner.worker_ended();
        };
        match turn::spawn(run) {
            Ok(worker) => inner.keep(worker),
            Err(e) => {
                let what = format!("no thread could be started ({e})");
                inner.finish(&request, Err(Error::Busy { what }.into()));
                inner.worker_ended();
            }
        }
    }

    /// An answer from a message and its tail.
    pub fn answer<M: Message>(&self, message: &M, tail: Vec<u8>) -> Answer {
        Answer { kind: M::KIND, head: encode_head(message, self.agreed.minor), tail }
    }

    /// Sends an event in the middle of a call; parks while there is no credit, or holds it where that is impossible
    /// until [`Job::sent`].
    pub fn event<M: Message>(&self, message: &M, tail: &[u8]) -> Result<(), Error> {
        self.event_with(message, tail, || ())
    }

    /// As [`Job::event`]; `due` runs once nothing is waited for any more, before the host can have seen the event. It
    /// does not run for an event that is held.
    pub fn event_with<M: Message>(&self, message: &M, tail: &[u8], due: impl FnOnce()) -> Result<(), Error> {
        match self.request.spend_credit(self.event_frame(message, tail))? {
            Some(frame) => {
                due();
                self.inner.send(frame)
            }
            None => Ok(()),
        }
    }

    /// Sends an event between calls; waits while there is no credit.
    pub async fn event_in_turn<M: Message>(&self, message: &M, tail: &[u8]) -> Result<(), Error> {
        self.credit(&mut |_| {}).await?;
        self.event(message, tail)
    }

    /// Waits until an event may be sent; meanwhile hands out checkpoint requests.
    pub async fn credit(&self, serve: &mut dyn FnMut(Arc<Request>)) -> Result<(), Error> {
        self.request.wait_credit(serve, &|frame| self.inner.send(frame)).await
    }

    /// Waits until no event of an earlier call is held.
    pub async fn sent(&self) -> Result<(), Error> {
        self.request.wait_sent(&|frame| self.inner.send(frame)).await
    }

    fn event_frame<M: Message>(&self, message: &M, tail: &[u8]) -> Frame {
        Frame::new(self.request.id, Flags(0), message, tail, self.agreed.minor)
    }
}

impl Inner {
    /// There are no threads.
    #[cfg(target_arch = "wasm32")]
    fn keep(&self, (): ()) {}

    /// Keeps a worker's thread for [`Connection::join`], and lets go of those that have ended.
    #[cfg(not(target_arch = "wasm32"))]
    fn keep(&self, thread: JoinHandle<()>) {
        let mut s = self.lock();
        let (ended, running) =
            std::mem::take(&mut s.threads).into_iter().partition::<Vec<_>, _>(|t| t.is_finished());
        s.threads = running;
        s.threads.push(thread);
        drop(s);
        for thread in ended {
            let _ = thread.join();
        }
    }

    fn worker_ended(&self) {
        self.lock().workers -= 1;
        self.changed.notify_all();
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "of an unknown kind".into())
}
