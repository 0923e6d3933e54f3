//! A generation that is iterated.

use crate::connection::MINOR;
use crate::handle::Handle;
use crate::pending::Pending;
use crate::{Checkpoint, Error, Generated, Result};
use lean_protocol::{decode_head, messages as m, Frame, Message};
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What happens on the way to a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// So much of the context has been computed.
    Prefill {
        /// Tokens done.
        done: u32,
        /// Tokens in all.
        total: u32,
    },
    /// A step.
    Token {
        /// Its token ids.
        ids: Vec<u32>,
        /// Their text: whole characters, possibly none yet.
        text: String,
        /// Whether the type left no choice.
        forced: bool,
    },
    /// The value so far, if [`crate::Request::partials`] asked for it.
    Partial(Partial),
    /// What the next token is chosen from, if [`crate::Request::candidates`] asked for it: the likeliest tokens, likeliest
    /// first, and at the end the one taken if it is not among them.
    Candidates(Vec<Candidate>),
}

/// A token that the model might go on with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its text; empty for the end of the value.
    pub text: String,
    /// Among all tokens of the vocabulary, at temperature 1.
    pub probability: f64,
    /// Whether the type allows it here.
    pub allowed: bool,
}

/// A value so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// The JSON pointer of the innermost value that is being written.
    pub path: String,
    /// It parses: strings as they grow, numbers and words once they are whole.
    pub json: String,
    /// How many bytes of it will not change.
    pub final_bytes: usize,
}

impl Partial {
    /// The value so far, decoded: a type whose members may be missing, or [`Value`].
    pub fn value<P: DeserializeOwned>(&self) -> Result<P> {
        let wrong = |e| Error::invalid(format!("the value so far is no {}: {e}", std::any::type_name::<P>()));
        serde_json::from_str(&self.json).map_err(wrong)
    }
}

/// A generation that is iterated: events, and at the end the error, if there is one; then [`Stream::finish`] has the value.
/// Dropping it cancels what is left of it and waits until it has ended, so that its session can go on.
pub struct Stream<T> {
    pending: Pending,
    owner: Arc<Handle>,
    /// What went wrong with an event.
    failed: Option<Error>,
    said: bool,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Stream<T> {
    pub(crate) fn new(pending: Pending, owner: Arc<Handle>) -> Self {
        Self { pending, owner, failed: None, said: false, value: PhantomData }
    }

    /// The value; events that were not iterated are let pass.
    pub fn finish(mut self) -> Result<Generated<T>> {
        while self.pending.next().is_some() {}
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let (answer, tail) = self.pending.take_answer::<m::Generated>()?;
        Generated::of(&self.owner.connection, &answer, &tail)
    }

    /// Only the text, piece by piece.
    pub fn text(&mut self) -> impl Iterator<Item = Result<String>> + '_ {
        self.filter_map(|event| match event {
            Ok(Event::Token { text, .. }) if !text.is_empty() => Some(Ok(text)),
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        })
    }

    /// Only the values so far, if the request asked for [`crate::Request::partials`].
    pub fn partials(&mut self) -> impl Iterator<Item = Result<Value>> + '_ {
        self.filter_map(|event| match event {
            Ok(Event::Partial(partial)) => Some(partial.value()),
            Ok(_) => None,
            Err(e) => Some(Err(e)),
        })
    }

    /// The state between two tokens: it holds at least the events that were iterated so far. [`crate::Request::resume`] finishes
    /// the value from there.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        if self.pending.is_over() {
            return Err(Error::invalid("the generation is not running"));
        }
        Checkpoint::take(
            &m::CheckpointTake { session: None, generation: Some(self.pending.id()) },
            &self.owner,
        )
    }

    /// Cancels what is left of it and waits until it has ended.
    pub fn cancel(self) {}
}

impl<T: DeserializeOwned> Iterator for Stream<T> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            let Some(frame) = self.pending.next() else {
                let over = self.pending.failure().cloned().filter(|_| !self.said);
                self.said = true;
                return over.map(Err);
            };
            match event_of(&frame).transpose() {
                Some(Ok(event)) => return Some(Ok(event)),
                // A kind that a newer bridge sends.
                None => {}
                Some(Err(error)) => {
                    self.pending.stop();
                    self.said = true;
                    self.failed = Some(error.clone());
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        self.pending.stop();
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(request {} of {:?})", self.pending.id(), self.owner)
    }
}

fn event_of(frame: &Frame) -> Result<Option<Event>> {
    let wrong = |e: lean_protocol::WireError| Error::protocol(e.to_string());
    let text =
        || String::from_utf8(frame.tail().to_vec()).map_err(|_| Error::protocol("text that is not UTF-8"));
    Ok(Some(match frame.kind {
        m::Prefill::KIND => {
            let m::Prefill { done, total } = decode_head(frame.head(), MINOR).map_err(wrong)?;
            Event::Prefill { done, total }
        }
        m::Tokens::KIND => {
            let m::Tokens { ids, forced } = decode_head(frame.head(), MINOR).map_err(wrong)?;
            Event::Token { ids, text: text()?, forced }
        }
        m::Partial::KIND => {
            let m::Partial { path, final_bytes } = decode_head(frame.head(), MINOR).map_err(wrong)?;
            Event::Partial(Partial { path, json: text()?, final_bytes: final_bytes as usize })
        }
        m::Candidates::KIND => {
            let wrong = |e| Error::protocol(format!("candidates: {e}"));
            Event::Candidates(serde_json::from_slice(frame.tail()).map_err(wrong)?)
        }
        _ => return Ok(None),
    }))
}
