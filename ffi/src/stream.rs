//! Values being generated, pulled event by event.

use crate::cancel;
use crate::checkpoint::lean_checkpoint;
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::Out;
use crate::model::text_out;
use crate::options::{
    self, lean_generate_options, lean_resume_options, sized, LEAN_EVENTS_CANDIDATES, LEAN_EVENTS_PARTIAL,
    LEAN_EVENTS_PREFILL, LEAN_EVENTS_TEXT, LEAN_EVENTS_TOKEN,
};
use crate::output::{self, lean_output};
use crate::session::{lean_session, Home};
use crate::status::{lean_status, LEAN_END, LEAN_OK, LEAN_PENDING};
use crate::text::Text;
use crate::types::lean_type;
use lean_engine::{CancelToken, Error, Event, Generation, Output, Request, Result, Session};
use std::ffi::c_char;
use std::mem::{offset_of, size_of};
use std::ptr::null;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// `timeout_ms` of `lean_stream_next`: until there is an event.
pub const LEAN_WAIT_FOREVER: u32 = 0xFFFF_FFFF;

/// Context tokens ran: `done` of `total`.
pub const LEAN_EVENT_PREFILL: i32 = 1;
/// A token was added to the value: `token`, `forced`, and the `text` that became complete with it, if any.
pub const LEAN_EVENT_TOKEN: i32 = 2;
/// `text` became final without a further token. Only at the end.
pub const LEAN_EVENT_TEXT: i32 = 3;
/// The value so far, if `LEAN_GENERATE_PARTIALS` asked for it: `text` is JSON that parses, of which the first
/// `done` bytes are final, and `path` the JSON pointer of the innermost value that is being written.
pub const LEAN_EVENT_PARTIAL: i32 = 4;
/// What the next token is chosen from, if `candidates` of the options asked for it: `text` is a JSON array of `{"id", "text",
/// "probability", "allowed"}`, likeliest first, and at the end the one taken if it is not among them. Probabilities are those
/// among all tokens at temperature 1, `allowed` says whether the type allows it, `text` is empty for the end.
pub const LEAN_EVENT_CANDIDATES: i32 = 5;

/// A generation under way. It has the session until it is finished or freed. Used by one thread at a time,
/// but for `lean_stream_cancel`.
pub struct lean_stream {
    _opaque: [u8; 0],
}
opaque!(lean_stream, Stream, b"strm");

/// What happened. Kinds that a program does not know are to be skipped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_event {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// `LEAN_EVENT_*`.
    pub kind: i32,
    /// Work done.
    pub done: u64,
    /// Work in total.
    pub total: u64,
    /// Whole UTF-8 characters, possibly none, NUL-terminated. Borrowed until the next call on the stream.
    pub text: *const c_char,
    /// Its length.
    pub text_length: usize,
    /// Token id.
    pub token: u32,
    /// 1 if the type left no choice about the token.
    pub forced: u32,
    /// JSON pointer, NUL-terminated, or NULL. Borrowed until the next call on the stream.
    pub path: *const c_char,
    /// Its length.
    pub path_length: usize,
}

sized!(lean_event { kind, done, total, text, text_length, token, forced, path, path_length });

impl lean_event {
    fn defaults() -> Self {
        lean_event {
            struct_size: size_of::<Self>() as u32,
            kind: 0,
            done: 0,
            total: 0,
            text: null(),
            text_length: 0,
            token: 0,
            forced: 0,
            path: null(),
            path_length: 0,
        }
    }
}

pub(crate) struct Stream {
    home: Arc<Home>,
    cancel: CancelToken,
    events: u32,
    state: Mutex<State>,
}

struct State {
    /// Until the stream is finished.
    generation: Option<Generation<Session>>,
    /// Of the last event, or the last partial text.
    text: Text,
    /// Of the last event, if it has one.
    path: Option<Text>,
}

impl State {
    fn generation(&mut self) -> Result<&mut Generation<Session>> {
        self.generation.as_mut().ok_or_else(finished)
    }
}

fn finished() -> Error {
    Error::invalid("stream", "is finished; only lean_stream_free is left")
}

/// Brings the session home even if the engine panics.
struct Return<'a> {
    home: &'a Home,
    session: Option<Session>,
}

impl Drop for Return<'_> {
    fn drop(&mut self) {
        self.home.give_back(self.session.take());
    }
}

impl Stream {
    fn next(&self, timeout: Option<Duration>, event: Out<lean_event>, size: usize) -> Result<lean_status> {
        let mut state = handle::lock(&self.state, "stream")?;
        let began = Instant::now();
        while let Some(next) = state.generation()?.next()? {
            if let Some((filled, text, path)) = self.select(next) {
                state.text = Text::new(text);
                state.path = path.map(Text::new);
                let filled = lean_event {
                    text: state.text.ptr(),
                    text_length: state.text.len(),
                    path: state.path.as_ref().map_or(null(), Text::ptr),
                    path_length: state.path.as_ref().map_or(0, Text::len),
                    ..filled
                };
                options::write(event, size, filled);
                return Ok(LEAN_OK);
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                return Ok(LEAN_PENDING);
            }
        }
        Ok(LEAN_END)
    }

    /// The event as C sees it, and its text, if it was asked for.
    fn select(&self, event: Event) -> Option<(lean_event, String, Option<String>)> {
        let empty = lean_event::defaults();
        if let Event::Partial { path, json, final_bytes } = event {
            let event = lean_event { kind: LEAN_EVENT_PARTIAL, done: final_bytes as u64, ..empty };
            return (self.events & LEAN_EVENTS_PARTIAL != 0).then_some((event, json, Some(path)));
        }
        if let Event::Candidates { candidates } = event {
            let event = lean_event { kind: LEAN_EVENT_CANDIDATES, ..empty };
            // Numbers, strings and flags: nothing that JSON cannot have.
            let json = serde_json::to_string(&candidates).unwrap_or_default();
            return (self.events & LEAN_EVENTS_CANDIDATES != 0).then_some((event, json, None));
        }
        let (bits, event, text) = match event {
            Event::Prefill { done, total } => {
                let event =
                    lean_event { kind: LEAN_EVENT_PREFILL, done: done as u64, total: total as u64, ..empty };
                (LEAN_EVENTS_PREFILL, event, String::new())
            }
            Event::Token { id, text, forced } => {
                let event =
                    lean_event { kind: LEAN_EVENT_TOKEN, token: id, forced: u32::from(forced), ..empty };
                (LEAN_EVENTS_TOKEN, event, text)
            }
            Event::Text { text } => (0, lean_event { kind: LEAN_EVENT_TEXT, ..empty }, text),
            // An event that this interface has no kind for yet.
            _ => return None,
        };
        let bits = bits | if text.is_empty() { 0 } else { LEAN_EVENTS_TEXT };
        (bits & self.events != 0).then_some((event, text, None))
    }

    fn finish(&self) -> Result<Output> {
        let generation = handle::lock(&self.state, "stream")?.generation.take().ok_or_else(finished)?;
        let mut bring = Return { home: &self.home, session: None };
        let (session, output) = generation.finish_with_session();
        bring.session = Some(session);
        output
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let poisoned = self.state.is_poisoned();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(generation) = state.generation.take() {
            let mut bring = Return { home: &self.home, session: None };
            let session = generation.abandon();
            bring.session = Some(session).filter(|_| !poisoned);
        }
    }
}

/// A request from C's parts, with a flag of its own that also hears the caller's.
///
/// # Safety
/// The pointers are as the header demands.
pub(crate) unsafe fn request(ty: *const lean_type, options: &lean_generate_options) -> Result<Request> {
    // SAFETY: passed on.
    unsafe {
        let mut request = Request::new(handle::get(ty)?.ty.clone());
        request.options = options.options()?;
        request.cancel = cancel::child(options.cancel)?;
        Ok(match options.timeout() {
            Some(after) => request.timeout(after),
            None => request,
        })
    }
}

pub(crate) fn open(
    home: &Arc<Home>,
    generation: Generation<Session>,
    cancel: CancelToken,
    events: u32,
) -> *mut lean_stream {
    let state = Mutex::new(State { generation: Some(generation), text: Text::default(), path: None });
    handle::new(Stream { home: home.clone(), cancel, events, state })
}

/// Starts a value after the session's content. `options` may be NULL. The stream has the session until it is
/// finished or freed; nothing of the value is part of the session before it is finished. Free it with
/// `lean_stream_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_generate(
    session: *mut lean_session,
    r#type: *const lean_type,
    options: *const lean_generate_options,
    stream: *mut *mut lean_stream,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, out) = (handle::get(session)?, Out::new("stream", stream)?);
        let options = options::read(options)?;
        let request = request(r#type, &options)?;
        let generation = home.take(|session| session.into_generation(&request))?;
        out.set(open(home, generation, request.cancel, options.events));
        Ok(())
    })
}

/// Continues the value that the session's checkpoint was taken in: the remaining events, and at the end the
/// whole value. `options` may be NULL. As for `lean_session_generate`, free the stream with
/// `lean_stream_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_session_resume(
    session: *mut lean_session,
    options: *const lean_resume_options,
    stream: *mut *mut lean_stream,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let (home, out) = (handle::get(session)?, Out::new("stream", stream)?);
        let options: lean_resume_options = options::read(options)?;
        let cancel = cancel::child(options.cancel)?;
        let generation = home.take(|session| session.into_resumed(cancel.clone()))?;
        out.set(open(home, generation, cancel, options.events));
        Ok(())
    })
}

/// Prepares the struct. `size` is `sizeof *event`.
#[no_mangle]
pub unsafe extern "C" fn lean_event_init(event: *mut lean_event, size: usize) {
    // SAFETY: the header's rules.
    unsafe { options::init(event, size) }
}

/// Works until there is an event that was asked for, and writes it: `LEAN_OK`. `LEAN_END` when none will
/// follow; `lean_stream_finish` then returns the value at once. The work is done in the calling thread, in
/// passes over the weights: once `timeout_ms` have passed, and at least one pass was done, without such an
/// event, the answer is `LEAN_PENDING`. After an error every call answers the same error. Call
/// `lean_event_init` on `event` first, once.
#[no_mangle]
pub unsafe extern "C" fn lean_stream_next(
    stream: *mut lean_stream,
    timeout_ms: u32,
    event: *mut lean_event,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [stream], {
        let stream = handle::get(stream)?;
        let out = Out::new("event", event)?;
        let size = options::claimed_size(event)?;
        let timeout = (timeout_ms != LEAN_WAIT_FOREVER).then(|| Duration::from_millis(timeout_ms.into()));
        stream.next(timeout, out, size)
    })
}

/// The text so far, which may be ahead of the events that were delivered. NUL-terminated; `length` may be
/// NULL. Borrowed until the next call on the stream.
#[no_mangle]
pub unsafe extern "C" fn lean_stream_partial(
    stream: *mut lean_stream,
    text: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [stream], {
        let mut state = handle::lock(&handle::get(stream)?.state, "stream")?;
        let partial = state.generation()?.partial()?;
        state.text = Text::new(partial);
        text_out(&state.text, text, length)
    })
}

/// A point inside the value: a session restored from it delivers, by `lean_session_resume`, the events that
/// this stream has not delivered yet. Free it with `lean_checkpoint_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_stream_checkpoint(
    stream: *mut lean_stream,
    checkpoint: *mut *mut lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [stream], {
        let (stream, checkpoint) = (handle::get(stream)?, Out::new("checkpoint", checkpoint)?);
        let taken = handle::lock(&stream.state, "stream")?.generation()?.checkpoint()?;
        checkpoint.set(handle::new(taken));
        Ok(())
    })
}

/// Cancels the stream: what it is doing, on whichever thread, ends with `LEAN_CANCELLED`. From any thread
/// while the stream is not being freed; not from a signal handler (see `lean_cancel_trigger`).
#[no_mangle]
pub unsafe extern "C" fn lean_stream_cancel(
    stream: *const lean_stream,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [stream], {
        handle::get(stream)?.cancel.cancel();
        Ok(())
    })
}

/// Works to the end, makes the value part of the session, gives the session back and returns the value. After
/// an error or a cancellation the session is given back as it was before the stream. Free `output` with
/// `lean_output_free`. The stream itself remains to be freed, and no other call on it succeeds any more.
#[no_mangle]
pub unsafe extern "C" fn lean_stream_finish(
    stream: *mut lean_stream,
    output: *mut *mut lean_output,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [stream], {
        let (stream, output) = (handle::get(stream)?, Out::new("output", output)?);
        output.set(output::new(stream.finish()?));
        Ok(())
    })
}

/// Frees the stream and, if it was not finished, gives the session back as it was before. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_stream_free(stream: *mut lean_stream) {
    // SAFETY: the header's rules.
    unsafe { handle::free(stream) }
}
