//! A value being generated: pulled event by event, cancelled from anywhere, checkpointed at any point.

use super::session::Session;
use crate::context::Checkpoint;
use crate::error::Result;
use crate::generate::{Branch, Event, Output, Run};
use std::borrow::BorrowMut;

/// A generation over a borrowed (`&mut Session`) or owned ([`Session`]) session. Dropping it leaves the session
/// as it was before the call; so do an error and a cancellation, unless the request asked to keep the part.
///
/// Generations that [`Session::generate_many`](super::Session::generate_many) started together share passes:
/// asking one of them for its next event takes a step in all of them.
pub struct Generation<S: BorrowMut<Session>> {
    session: S,
    branch: Branch,
    failed: bool,
}

impl<S: BorrowMut<Session>> Generation<S> {
    pub(super) fn new(session: S, run: Run) -> Self {
        let mut branches = Branch::group(vec![run], &session.borrow().model.0.scheduler);
        // A group of one has one branch.
        let branch = branches.remove(0);
        Self::of(session, branch)
    }

    pub(super) fn of(session: S, branch: Branch) -> Self {
        Generation { session, branch, failed: false }
    }

    /// The next event; `None` once the value is finished. After an error every call returns the same error.
    #[allow(clippy::should_implement_trait)] // It can fail, and an iterator of results would go on after one.
    pub fn next(&mut self) -> Result<Option<Event>> {
        let model = self.session.borrow().model.clone();
        let event = self.branch.next(&model.0.run_deps());
        if event.is_err() && !self.failed {
            self.failed = true;
            if self.branch.peek(Run::keeps_partial).unwrap_or(false) {
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
        self.between_steps(|run| {
            Ok(Checkpoint::live(run.seq.fork()?, identity, Some(run.suspend().to_bytes()?)))
        })
    }

    /// The text so far, which may be ahead of the events.
    pub fn partial(&self) -> Result<String> {
        self.branch.peek(|run| run.partial().to_string())
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
        let output = self.branch.peek(Run::output)??;
        self.commit()?;
        Ok(output)
    }

    fn commit(&mut self) -> Result<()> {
        let seq = self.between_steps(|run| run.seq.fork())?;
        let session = self.session.borrow_mut();
        session.seq = seq;
        session.suspended = None;
        session.remember();
        Ok(())
    }

    fn between_steps<R>(&self, look: impl FnOnce(&Run) -> Result<R>) -> Result<R> {
        let model = self.session.borrow().model.clone();
        self.branch.with(&model.0.run_deps(), look)?
    }
}
