//! SESSION_OPEN, SESSION_APPEND, SESSION_FORK, SESSION_CLOSE, and CHECKPOINT_TAKE of a session.

use super::{document, only, prefill_event};
use crate::connection::{Answer, Job};
use crate::failure::Outcome;
use crate::port::Session;
use lean_engine::{Error, Result};
use lean_protocol::messages as m;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// The session, for this call alone.
pub(super) fn lock(slot: &Mutex<Box<dyn Session>>) -> Result<MutexGuard<'_, Box<dyn Session>>> {
    match slot.try_lock() {
        Ok(guard) => Ok(guard),
        // A call that panicked worked on a fork: the session itself is as it was.
        Err(TryLockError::Poisoned(e)) => Ok(e.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { what: "the session, by another request".into() }),
    }
}

/// Keeps a new session and answers its handle.
fn keep(job: &Job, session: Box<dyn Session>) -> Outcome<Answer> {
    let tokens = session.tokens() as u32;
    let session = job.inner.tables.sessions.insert(Arc::new(Mutex::new(session)))?;
    Ok(job.answer(&m::Session { session, tokens }, Vec::new()))
}

pub(crate) fn open(job: &Job, open: m::SessionOpen) -> Outcome<Answer> {
    let model = job.inner.tables.models.get(open.model)?;
    let context = open.context.map(|n| n as usize);
    let session = match open.checkpoint {
        None => model.open(context)?,
        Some(c) => model.restore(&*job.inner.tables.checkpoints.get(c)?, context)?,
    };
    keep(job, session)
}

/// Changes a session and answers what it is then. The change works on a fork: whatever goes wrong, the session is as
/// it was.
pub(super) async fn change(
    job: &Job,
    handle: u32,
    change: impl FnOnce(&mut dyn Session) -> Outcome<()>,
) -> Outcome<Answer> {
    let slot = job.inner.tables.sessions.get(handle)?;
    let mut session = lock(&slot)?;
    let mut work = session.fork()?;
    change(work.as_mut())?;
    job.sent().await?;
    *session = work;
    let tokens = session.tokens() as u32;
    Ok(job.answer(&m::Session { session: handle, tokens }, Vec::new()))
}

pub(crate) async fn append(job: &Job, append: m::SessionAppend) -> Outcome<Answer> {
    change(job, append.session, |session| {
        let doc = document(job)?;
        only(&doc, &["blocks"])?;
        let mut on_prefill = |done, total| prefill_event(job, done, total);
        Ok(append_blocks(job, session, &doc, append.replace, &mut on_prefill)?)
    })
    .await
}

/// Appends the document's blocks, if it has any.
pub(super) fn append_blocks(
    job: &Job,
    session: &mut dyn Session,
    doc: &Value,
    replace: bool,
    on_prefill: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let none = Value::Array(Vec::new());
    let blocks = match doc.get("blocks") {
        None | Some(Value::Null) => &none,
        Some(v @ Value::Array(_)) => v,
        Some(_) => return Err(Error::invalid("blocks", "an array of blocks")),
    };
    if *blocks == none && !replace {
        return Ok(());
    }
    session.append(blocks, replace, &job.request.cancel, on_prefill)
}

pub(crate) async fn cut(job: &Job, cut: m::SessionCut) -> Outcome<Answer> {
    change(job, cut.session, |session| {
        let end = cut.end.map_or(session.tokens(), |end| end as usize);
        let mut on_prefill = |done, total| prefill_event(job, done, total);
        Ok(session.cut(cut.begin as usize..end, &job.request.cancel, &mut on_prefill)?)
    })
    .await
}

pub(crate) fn fork(job: &Job, fork: m::SessionFork) -> Outcome<Answer> {
    let slot = job.inner.tables.sessions.get(fork.session)?;
    let copy = lock(&slot)?.fork()?;
    keep(job, copy)
}

pub(crate) fn close(job: &Job, close: m::SessionClose) -> Outcome<Answer> {
    job.inner.tables.sessions.remove(close.session)?;
    Ok(job.answer(&m::Ok {}, Vec::new()))
}

pub(crate) fn checkpoint(job: &Job, take: m::CheckpointTake) -> Outcome<Answer> {
    let session =
        take.session.ok_or_else(|| Error::invalid("session", "a session or a generation is needed"))?;
    let slot = job.inner.tables.sessions.get(session)?;
    let checkpoint = lock(&slot)?.checkpoint()?;
    super::checkpoint::keep(job, checkpoint, Vec::new())
}
