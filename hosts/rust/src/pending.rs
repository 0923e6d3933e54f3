//! A request that was sent: its events, its answer, its end.

use crate::connection::{Connection, MINOR};
use crate::handle::Handle;
use crate::{CancelToken, Error, Result};
use lean_protocol::{crc32, decode_head, messages as m, Flags, Frame, Message};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end of a cancelled request is waited for: it takes one step, or a layer of a prefill.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// What a request hears.
pub(crate) enum Incoming {
    Event(Frame),
    End(Result<Frame>),
    /// Its token was cancelled.
    Poke,
}

pub(crate) struct Pending {
    connection: Arc<Connection>,
    id: u32,
    incoming: Receiver<Incoming>,
    token: Option<(CancelToken, u64)>,
    deadline: Option<Instant>,
    /// When a cancelled request is given up, and the error that says why it was cancelled.
    cancelled: Option<(Instant, Error)>,
    end: Option<Result<Frame>>,
    /// Whether the event that was taken last has not been given back as credit.
    owes: bool,
    consumed: u32,
    /// Kept alive, and so valid in the bridge, until the end.
    owners: Vec<Arc<Handle>>,
}

impl Pending {
    pub fn new(
        connection: Arc<Connection>,
        id: u32,
        incoming: Receiver<Incoming>,
        token: Option<(CancelToken, u64)>,
        deadline: Option<Instant>,
    ) -> Self {
        let (end, cancelled, owners) = (None, None, Vec::new());
        Self { connection, id, incoming, token, deadline, cancelled, end, owes: false, consumed: 0, owners }
    }

    pub fn owned_by(mut self, owners: impl IntoIterator<Item = Arc<Handle>>) -> Self {
        self.owners.extend(owners);
        self
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The error that it ended with.
    pub fn failure(&self) -> Option<&Error> {
        self.end.as_ref().and_then(|end| end.as_ref().err())
    }

    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// The next event; `None` once there is none: then [`Pending::answer`] has the end.
    pub fn next(&mut self) -> Option<Frame> {
        self.give_back();
        while self.end.is_none() {
            match self.receive() {
                // What arrives after a cancellation is nobody's any more.
                Some(Incoming::Event(frame)) if self.cancelled.is_none() => {
                    self.owes = true;
                    return Some(frame);
                }
                Some(Incoming::Event(_)) => {}
                Some(Incoming::End(end)) => self.end = Some(self.blamed(end)),
                Some(Incoming::Poke) => self.cancel(Error::cancelled("cancelled")),
                None => match self.cancelled.clone() {
                    None => self.cancel(Error::timeout()),
                    // The bridge does not answer a cancellation.
                    Some((_, error)) => self.end = Some(Err(error)),
                },
            }
        }
        None
    }

    /// What comes next; `None` when it is late.
    fn receive(&mut self) -> Option<Incoming> {
        let late = self.cancelled.as_ref().map(|(late, _)| *late).or(self.deadline);
        // The connection sends an end before it goes.
        let gone = || Incoming::End(Err(Error::cancelled("cancelled: the engine was closed")));
        match late {
            None => Some(self.incoming.recv().unwrap_or_else(|_| gone())),
            Some(late) => match self.incoming.recv_timeout(late.saturating_duration_since(Instant::now())) {
                Ok(incoming) => Some(incoming),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(gone()),
            },
        }
    }

    /// The end of a request that was cancelled for its deadline says so.
    fn blamed(&self, end: Result<Frame>) -> Result<Frame> {
        match (&self.cancelled, end) {
            (Some((_, why)), Err(error)) if error.code == Error::CANCELLED => Err(why.clone()),
            (_, end) => end,
        }
    }

    fn cancel(&mut self, why: Error) {
        if self.end.is_none() && self.cancelled.is_none() {
            self.cancelled = Some((Instant::now() + CANCEL_PATIENCE, why));
            self.connection.cancel(self.id);
        }
    }

    /// Cancels what is left of it and waits for its end, so that its session is free again.
    pub fn stop(&mut self) {
        self.cancel(Error::cancelled("cancelled"));
        while self.next().is_some() {}
    }

    /// Returns credit in halves of what there was, so that a token does not cost a frame each way.
    fn give_back(&mut self) {
        if !std::mem::take(&mut self.owes) {
            return;
        }
        self.consumed += 1;
        if self.consumed >= (self.connection.initial_credit() / 2).max(1) {
            self.connection.give_credit(self.id, std::mem::take(&mut self.consumed));
        }
    }

    /// Lets what events are left pass, and gives the answer, which must be an `M`, with its tail.
    pub fn answer<M: Message>(mut self, mut on_event: impl FnMut(&Frame)) -> Result<(M, Vec<u8>)> {
        while let Some(event) = self.next() {
            on_event(&event);
        }
        self.take_answer()
    }

    /// The answer, after the last event.
    pub fn take_answer<M: Message>(&mut self) -> Result<(M, Vec<u8>)> {
        let missing = || Err(Error::invalid("the end of this call was taken already"));
        let frame = self.end.take().unwrap_or_else(missing);
        self.end = Some(missing());
        let frame = frame?;
        if frame.kind != M::KIND {
            let got = m::spec(frame.kind).map_or("an unknown message", |s| s.name);
            return Err(Error::protocol(format!("the bridge answered with {got} where {} was due", M::NAME)));
        }
        let head = decode_head(frame.head(), MINOR).map_err(|e| Error::protocol(e.to_string()))?;
        Ok((head, frame.tail().to_vec()))
    }

    /// Sends a blob as chunks, the last of which says so and has the digest. One is on its way at a time.
    pub fn upload(&mut self, bytes: &[u8]) {
        let (most, digest) = (self.connection.chunk_bytes(), crc32::crc32(bytes));
        let mut offset = 0;
        loop {
            let piece = &bytes[offset..bytes.len().min(offset + most)];
            let last = offset + piece.len() == bytes.len();
            let flags = if last { Flags::CRITICAL | Flags::END } else { Flags::CRITICAL };
            let head = m::Chunk { offset: offset as u64, digest: last.then_some(digest) };
            // It is dropped when it was written, or when nobody reads any more: then the request's end says why.
            let _ = self.connection.send_more(self.id, flags, &head, piece).recv();
            offset += piece.len();
            if last {
                return;
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.connection.cancel(self.id);
        }
        if let Some((token, number)) = &self.token {
            token.leave(*number);
        }
    }
}
