//! A value being generated: pulled event by event, cancelled from anywhere, checkpointed at any point.

use super::session::Session;
use crate::context::Checkpoint;
use crate::error::{Error, Result};
use crate::generate::{Event, Output, Run};
use std::borrow::BorrowMut;

/// A generation over a borrowed (`&mut Session`) or owned ([`Session`]) session. Dropping it leaves the session
/// as it was before the call; so do an error and a cancellation, unless the request asked to keep the part.
pub struct Generation<S: BorrowMut<Session>> {
    session: S,
    run: Run,
    failed: Option<Error>,
}

impl<S: BorrowMut<Session>> Generation<S> {
    pub(super) fn new(session: S, run: Run) -> Self {
        Generation { session, run, failed: None }
    }

    /// The next event; `None` once the value is finished. After an error every call returns the same error.
    #[allow(clippy::should_implement_trait)] // It can fail, and an iterator of results would go on after one.
    pub fn next(&mut self) -> Result<Option<Event>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let model = self.session.borrow().model.clone();
        let event = self.run.next(&model.0.run_deps());
        if let Err(error) = &event {
            self.failed = Some(error.clone());
            if self.run.keeps_partial() {
                // If even that fails, the session is as it was, and the first error is the one to tell.
                let _ = self.commit();
            }
        }
        event
    }

    /// A point inside the value to continue from: [`Session::resume`] on the restored session delivers the
    /// events that were not delivered yet.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let identity = self.session.borrow().model.0.identity.clone();
        let resume = self.run.suspend().to_bytes()?;
        Ok(Checkpoint::live(self.run.seq.fork()?, identity, Some(resume)))
    }

    /// The text so far.
    pub fn partial(&self) -> &str {
        self.run.partial()
    }

    /// Runs to the end, makes the value part of the session and returns it.
    pub fn finish(self) -> Result<Output> {
        self.finish_with_session().1
    }

    /// The same, and gives the session back whatever happens.
    pub fn finish_with_session(mut self) -> (S, Result<Output>) {
        let output = self.run_to_end();
        (self.session, output)
    }

    /// Gives the session back as it was before the generation.
    pub fn abandon(self) -> S {
        self.session
    }

    fn run_to_end(&mut self) -> Result<Output> {
        while self.next()?.is_some() {}
        let output = self.run.output()?;
        self.commit()?;
        Ok(output)
    }

    fn commit(&mut self) -> Result<()> {
        let seq = self.run.seq.fork()?;
        let session = self.session.borrow_mut();
        session.seq = seq;
        session.suspended = None;
        Ok(())
    }
}
