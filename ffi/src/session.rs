//! Sequences that are appended to, generated from, forked and checkpointed.

use crate::checkpoint::lean_checkpoint;
use crate::context::lean_context;
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::lean_model;
use crate::options::{self, lean_prefill_options, lean_session_options};
use crate::status::lean_status;
use lean_engine::{Error, Restore, Restored, Result, Session};
use std::sync::{Arc, Mutex, PoisonError};

/// The state is taken over bit for bit, or the restore is `LEAN_INCOMPATIBLE`.
pub const LEAN_RESTORE_EXACT: i32 = 0;
/// A state made by another backend or version is taken over too; what follows is close, not identical.
pub const LEAN_RESTORE_CONVERT: i32 = 1;
/// Only the tokens are taken over; the state is computed again.
pub const LEAN_RESTORE_REPREFILL: i32 = 2;

/// The session did not come from a checkpoint.
pub const LEAN_RESTORED_NONE: i32 = 0;
/// The state is shared with the checkpoint; nothing was copied.
pub const LEAN_RESTORED_SHARED: i32 = 1;
/// The state was copied.
pub const LEAN_RESTORED_IMPORTED: i32 = 2;
/// The state of another backend or version was copied.
pub const LEAN_RESTORED_CONVERTED: i32 = 3;
/// The tokens will run again with the next step.
pub const LEAN_RESTORED_REPREFILLED: i32 = 4;

/// One sequence, used by one thread at a time. A call that fails or is cancelled leaves it as it was before.
/// While a stream has it, every other call on it is `LEAN_BUSY`.
pub struct lean_session {
    _opaque: [u8; 0],
}
opaque!(lean_session, Arc<Home>, b"sess");

/// Where a session lives. A stream takes the session away and brings it back; either may be freed first.
pub(crate) struct Home(Mutex<Slot>);

enum Slot {
    Here(Box<Session>),
    Streaming,
    Lost,
}

impl Home {
    /// Runs something with the session.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut Session) -> Result<R>) -> Result<R> {
        match &mut *handle::lock(&self.0, "session")? {
            Slot::Here(session) => body(session),
            Slot::Streaming => Err(streaming()),
            Slot::Lost => Err(lost()),
        }
    }

    /// A home whose session is with a stream.
    pub fn streaming() -> Arc<Self> {
        Arc::new(Home(Mutex::new(Slot::Streaming)))
    }

    /// Takes the session away for a stream, if `start` succeeds.
    pub fn take<R>(&self, start: impl FnOnce(Session) -> Result<R, (Session, Error)>) -> Result<R> {
        let mut slot = handle::lock(&self.0, "session")?;
        // Whatever panics below loses the session.
        match std::mem::replace(&mut *slot, Slot::Lost) {
            Slot::Here(session) => match start(*session) {
                Ok(started) => {
                    *slot = Slot::Streaming;
                    Ok(started)
                }
                Err((session, error)) => {
                    *slot = Slot::Here(Box::new(session));
                    Err(error)
                }
            },
            Slot::Streaming => {
                *slot = Slot::Streaming;
                Err(streaming())
            }
            Slot::Lost => Err(lost()),
        }
    }

    /// Brings the session back; `None` if a panic took it.
    pub fn give_back(&self, session: Option<Session>) {
        // Calls that meet a streaming session leave at once, so this does not wait for work.
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = session.map_or(Slot::Lost, |session| Slot::Here(Box::new(session)));
    }
}

fn streaming() -> Error {
    Error::Busy { what: "the session is in use by a stream; finish or free that first".into() }
}

fn lost() -> Error {
    Error::Panic("the session was in use when an earlier call panicked; free it".into())
}

fn new(session: Session) -> *mut lean_session {
    handle::new(Arc::new(Home(Mutex::new(Slot::Here(Box::new(session))))))
}

/// An empty session. `options` may be NULL. Free it with `lean_session_free`; it keeps the model alive.
#[no_mangle]
pub unsafe extern "C" fn lean_session_new(
    model: *const lean_model,
    options: *const lean_session_options,
    session: *mut *mut lean_session,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, session) = (handle::get(model)?, Out::new("session", session)?);
        session.set(new(model.model.session(options::read(options)?.options()?)?));
        Ok(())
    })
}

/// A session that continues from a checkpoint, by a policy `LEAN_RESTORE_*`. `options` may be NULL. Free it
/// with `lean_session_free`; the checkpoint stays usable and may be freed.
#[no_mangle]
pub unsafe extern "C" fn lean_session_restore(
    model: *const lean_model,
    checkpoint: *const lean_checkpoint,
    policy: i32,
    options: *const lean_session_options,
    session: *mut *mut lean_session,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model, checkpoint], {
        let (model, checkpoint) = (handle::get(model)?, handle::get(checkpoint)?);
        let session = Out::new("session", session)?;
        let policy = match policy {
            LEAN_RESTORE_EXACT => Restore::Exact,
            LEAN_RESTORE_CONVERT => Restore::Convert,
            LEAN_RESTORE_REPREFILL => Restore::Reprefill,
            other => return Err(Error::invalid("policy", format!("{other} is not one of LEAN_RESTORE_*"))),
        };
        let options = options::read(options)?.options()?;
        session.set(new(model.model.restore_with(checkpoint, policy, options)?));
        Ok(())
    })
}

/// Adds a context and runs it, up to its last token, which runs with the next step. `options` may be NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_session_append(
    session: *mut lean_session,
    context: *const lean_context,
    options: *const lean_prefill_options,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, content) = (handle::get(session)?, handle::get(context)?.read()?);
        let (cancel, progress) = options::read(options)?.parts()?;
        let blocks = content.blocks_only()?;
        home.with(|s| {
            s.append_with(blocks, &cancel, |done, total| progress.report(done as u64, total as u64))
        })
    })
}

/// Makes the session's content exactly a context. What the two have in common at their start keeps its state;
/// the number of tokens that did not have to run again goes to `reused`, which may be NULL. `options` may be
/// NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_session_set_context(
    session: *mut lean_session,
    context: *const lean_context,
    options: *const lean_prefill_options,
    reused: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, content) = (handle::get(session)?, handle::get(context)?.read()?);
        let reused = input::optional_out("reused", reused)?;
        let (cancel, progress) = options::read(options)?.parts()?;
        let blocks = content.blocks_only()?;
        let report = |done, total| progress.report(done as u64, total as u64);
        let n = home.with(|s| s.set_context_with(blocks, &cancel, report))?;
        if let Some(reused) = reused {
            reused.set(n);
        }
        Ok(())
    })
}

/// Keeps the first `length` tokens.
#[no_mangle]
pub unsafe extern "C" fn lean_session_truncate(
    session: *mut lean_session,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], { handle::get(session)?.with(|s| s.truncate(length)) })
}

/// Removes the tokens from `begin` up to, but not including, `end`, and runs what follows them again, at its
/// new place; the number of tokens that ran goes to `ran`, which may be NULL. `options` may be NULL. A range
/// beyond the session's tokens is an error that says how many there are.
#[no_mangle]
pub unsafe extern "C" fn lean_session_drop_range(
    session: *mut lean_session,
    begin: usize,
    end: usize,
    options: *const lean_prefill_options,
    ran: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, ran) = (handle::get(session)?, input::optional_out("ran", ran)?);
        let (cancel, progress) = options::read(options)?.parts()?;
        let report = |done, total| progress.report(done as u64, total as u64);
        let n = home.with(|s| s.drop_range_with(begin..end, &cancel, report))?;
        if let Some(ran) = ran {
            ran.set(n);
        }
        Ok(())
    })
}

/// A second session with the same content. Takes microseconds; memory is shared until one of them writes.
/// Free it with `lean_session_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_fork(
    session: *mut lean_session,
    fork: *mut *mut lean_session,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, fork) = (handle::get(session)?, Out::new("fork", fork)?);
        fork.set(new(home.with(|s| s.fork())?));
        Ok(())
    })
}

/// A point to continue from. Takes microseconds at any length. Free it with `lean_checkpoint_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_checkpoint(
    session: *mut lean_session,
    checkpoint: *mut *mut lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, checkpoint) = (handle::get(session)?, Out::new("checkpoint", checkpoint)?);
        checkpoint.set(handle::new(home.with(|s| s.checkpoint())?));
        Ok(())
    })
}

/// Ids of the sequence. Writes at most `capacity` of them to `ids` (NULL with capacity 0) and their number to
/// `count`, which may be more.
#[no_mangle]
pub unsafe extern "C" fn lean_session_tokens(
    session: *mut lean_session,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let home = handle::get(session)?;
        home.with(|s| unsafe { input::copy_out("ids", s.tokens(), ids, capacity, count) })
    })
}

/// Most tokens that the session may hold.
#[no_mangle]
pub unsafe extern "C" fn lean_session_capacity(
    session: *mut lean_session,
    tokens: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, tokens) = (handle::get(session)?, Out::new("tokens", tokens)?);
        tokens.set(home.with(|s| Ok(s.capacity()))?);
        Ok(())
    })
}

/// What the restore did that the session came from: `LEAN_RESTORED_*`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_restored(
    session: *mut lean_session,
    how: *mut i32,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, how) = (handle::get(session)?, Out::new("how", how)?);
        how.set(match home.with(|s| Ok(s.restored()))? {
            None => LEAN_RESTORED_NONE,
            Some(Restored::Shared) => LEAN_RESTORED_SHARED,
            Some(Restored::Imported) => LEAN_RESTORED_IMPORTED,
            Some(Restored::Converted) => LEAN_RESTORED_CONVERTED,
            Some(Restored::Reprefilled) => LEAN_RESTORED_REPREFILLED,
        });
        Ok(())
    })
}

/// Whether the session came from a checkpoint inside a value, so that `lean_session_resume` continues it.
#[no_mangle]
pub unsafe extern "C" fn lean_session_can_resume(
    session: *mut lean_session,
    can: *mut bool,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, can) = (handle::get(session)?, Out::new("can", can)?);
        can.set(home.with(|s| Ok(s.can_resume()))?);
        Ok(())
    })
}

/// The token-level door: adds ids, runs all that is pending and writes the last token's logits, as many as
/// the model's vocab_size. At most `capacity` of them are written to `logits` (NULL with capacity 0) and their
/// number to `written`, which may be NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_session_forward(
    session: *mut lean_session,
    ids: *const u32,
    count: usize,
    logits: *mut f32,
    capacity: usize,
    written: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, ids) = (handle::get(session)?, input::slice("ids", ids, count)?);
        // Nothing may fail once the tokens have run.
        let writable = capacity == 0 || (!logits.is_null() && logits.is_aligned());
        if !writable {
            return Err(Error::invalid(
                "logits",
                format!("is NULL or not aligned, with a capacity of {capacity}"),
            ));
        }
        let written = input::optional_out("written", written)?;
        let all = home.with(|s| s.forward(ids))?;
        let mut count = 0;
        unsafe { input::copy_out("logits", &all, logits, capacity, &mut count) }?;
        if let Some(written) = written {
            written.set(count);
        }
        Ok(())
    })
}

/// Frees the session. NULL does nothing. A stream that has it goes on.
#[no_mangle]
pub unsafe extern "C" fn lean_session_free(session: *mut lean_session) {
    // SAFETY: the header's rules.
    unsafe { handle::free(session) }
}
