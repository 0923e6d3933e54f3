//! What a call answers when it fails.

use crate::handle::{self, opaque};
use crate::input;
use crate::status::lean_status;
use crate::text::Text;
use lean_engine::Error;
use std::ffi::c_char;
use std::ptr::null;

/// Why a call failed. Owned by whoever received it; immutable.
pub struct lean_error {
    _opaque: [u8; 0],
}
opaque!(lean_error, Failure, b"erro");

pub(crate) struct Failure {
    pub error: Error,
    message: Text,
    json: Text,
    strings: Vec<(&'static str, Text)>,
    numbers: Vec<(&'static str, u64)>,
}

/// A new error object.
pub(crate) fn new(error: Error) -> *mut lean_error {
    let (strings, numbers) = parts(&error);
    let mut json = serde_json::Map::new();
    json.insert("code".into(), error.code().into());
    json.insert("name".into(), error.name().into());
    json.insert("message".into(), error.to_string().into());
    json.extend(strings.iter().map(|(key, text)| (key.to_string(), text.as_str().into())));
    json.extend(numbers.iter().map(|(key, number)| (key.to_string(), (*number).into())));
    handle::new::<lean_error>(Failure {
        message: Text::new(error.to_string()),
        json: Text::new(serde_json::Value::Object(json).to_string()),
        strings: strings.into_iter().map(|(key, text)| (key, Text::new(text))).collect(),
        numbers,
        error,
    })
}

type Strings = Vec<(&'static str, String)>;

/// The parts of an error by name.
fn parts(error: &Error) -> (Strings, Vec<(&'static str, u64)>) {
    let strings = |pairs: &[(&'static str, &String)]| {
        pairs.iter().map(|(key, text)| (*key, text.to_string())).collect()
    };
    match error {
        Error::InvalidArgument { what, reason }
        | Error::BadModel { what, reason }
        | Error::UnsupportedModel { what, reason }
        | Error::BadCheckpoint { what, reason } => (strings(&[("what", what), ("reason", reason)]), vec![]),
        Error::Type { at, keyword, reason } => {
            (strings(&[("at", at), ("keyword", keyword), ("reason", reason)]), vec![])
        }
        Error::Template { reason } | Error::DeviceLost { reason } | Error::Device { reason } => {
            (strings(&[("reason", reason)]), vec![])
        }
        Error::ContextOverflow { needed, available } => {
            (vec![], vec![("needed", *needed as u64), ("available", *available as u64)])
        }
        Error::BudgetTooSmall { needed } => (vec![], vec![("needed", *needed as u64)]),
        Error::ModelIo { path, reason } | Error::Io { path, reason } => {
            (strings(&[("path", path), ("reason", reason)]), vec![])
        }
        Error::Incompatible { what, expected, found } => {
            (strings(&[("what", what), ("expected", expected), ("found", found)]), vec![])
        }
        Error::OutOfMemory { wanted, what } => (strings(&[("what", what)]), vec![("wanted", *wanted)]),
        Error::Busy { what } => (strings(&[("what", what)]), vec![]),
        Error::Internal(reason) | Error::Panic(reason) => (strings(&[("reason", reason)]), vec![]),
        _ => (vec![], vec![]),
    }
}

/// # Safety
/// As [`handle::get`]; `length` is NULL or writable.
unsafe fn string<'a>(
    error: *const lean_error,
    length: *mut usize,
    pick: impl FnOnce(&'a Failure) -> Option<&'a Text>,
) -> *const c_char {
    // SAFETY: passed on.
    let text = unsafe { handle::get(error) }.ok().and_then(pick);
    let Some(text) = text else { return null() };
    if !length.is_null() && length.is_aligned() {
        // SAFETY: the caller passes NULL or a place for a number.
        unsafe { length.write(text.len()) };
    }
    text.ptr()
}

/// Frees an error. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_error_free(error: *mut lean_error) {
    // SAFETY: the header's rules.
    unsafe { handle::free(error) }
}

/// The status that the failed call returned; `LEAN_OK` for NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_error_code(error: *const lean_error) -> lean_status {
    // SAFETY: the header's rules.
    unsafe { handle::get(error) }
        .map_or(crate::status::LEAN_OK, |failure| failure.error.code() as lean_status)
}

/// The status as a word, such as "context_overflow"; "ok" for NULL. Static; never freed.
#[no_mangle]
pub unsafe extern "C" fn lean_error_name(error: *const lean_error) -> *const c_char {
    // SAFETY: the header's rules.
    crate::status::lean_status_name(unsafe { lean_error_code(error) })
}

/// What went wrong and where, for a person. NULL only if `error` is NULL.
/// `length` may be NULL. Borrowed until the error is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_error_message(error: *const lean_error, length: *mut usize) -> *const c_char {
    // SAFETY: the header's rules.
    unsafe { string(error, length, |failure| Some(&failure.message)) }
}

/// All of it as a JSON object: code, name, message, and the strings and numbers below. NULL only if `error`
/// is NULL. `length` may be NULL. Borrowed until the error is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_error_json(error: *const lean_error, length: *mut usize) -> *const c_char {
    // SAFETY: the header's rules.
    unsafe { string(error, length, |failure| Some(&failure.json)) }
}

/// A string of the error by its name: `what`, `reason`, `at`, `keyword`, `path`, `expected`, `found`,
/// `partial` (the text generated so far). NULL if this error has none of that name; the statuses say which
/// they have. `length` may be NULL. Borrowed until the error is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_error_string(
    error: *const lean_error,
    name: *const c_char,
    name_length: usize,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: the header's rules.
    unsafe {
        let Ok(name) = input::text("name", name, name_length) else { return null() };
        string(error, length, |failure| {
            failure.strings.iter().find(|(key, _)| *key == name).map(|(_, text)| text)
        })
    }
}

/// A number of the error by its name: `needed`, `available`, `tokens` (all in tokens), `wanted` (bytes).
/// Returns whether this error has one of that name, and only then writes it.
#[no_mangle]
pub unsafe extern "C" fn lean_error_number(
    error: *const lean_error,
    name: *const c_char,
    name_length: usize,
    number: *mut u64,
) -> bool {
    // SAFETY: the header's rules.
    unsafe {
        let (Ok(failure), Ok(name)) = (handle::get(error), input::text("name", name, name_length)) else {
            return false;
        };
        let found = failure.numbers.iter().find(|(key, _)| *key == name);
        let (Some((_, value)), Ok(number)) = (found, input::Out::new("number", number)) else { return false };
        number.set(*value);
        true
    }
}
