//! Numbers that never change.

use std::ffi::c_char;

/// What a function answers: `LEAN_OK`, one of the two other answers that are no errors (`LEAN_PENDING`,
/// `LEAN_END`), or the code of an error, 100 or more.
pub type lean_status = i32;

/// Version of this interface. It grows with every addition; nothing is ever removed or changed.
pub const LEAN_ABI_VERSION: u32 = 1;

/// Done.
pub const LEAN_OK: lean_status = 0;
/// Nothing within the timeout; ask again. No error.
pub const LEAN_PENDING: lean_status = 1;
/// Nothing will follow. No error.
pub const LEAN_END: lean_status = 2;

/// An argument is unusable: NULL, out of range, not UTF-8, a handle of another kind.
pub const LEAN_INVALID_ARGUMENT: lean_status = 100;
/// A type expression or JSON Schema that is malformed or cannot be enforced exactly.
pub const LEAN_TYPE: lean_status = 110;
/// The chat template failed or raised an error of its own.
pub const LEAN_TEMPLATE: lean_status = 120;
/// The context cannot hold what was asked for (numbers `needed`, `available`); nothing was changed.
pub const LEAN_CONTEXT_OVERFLOW: lean_status = 130;
/// The token budget cannot hold even the shortest value of the type (number `needed`).
pub const LEAN_BUDGET_TOO_SMALL: lean_status = 131;
/// Reserved: never returned. A value is steered to its end within the budget, or `LEAN_BUDGET_TOO_SMALL` says so
/// before it begins.
pub const LEAN_TRUNCATED: lean_status = 132;
/// The model cannot be read (strings `path`, `reason`).
pub const LEAN_MODEL_IO: lean_status = 200;
/// The model file is damaged, truncated or malformed (strings `what`, `reason`).
pub const LEAN_BAD_MODEL: lean_status = 201;
/// The model file is well-formed, but this library cannot run it (strings `what`, `reason`).
pub const LEAN_UNSUPPORTED_MODEL: lean_status = 202;
/// The checkpoint is damaged, truncated or malformed (strings `what`, `reason`).
pub const LEAN_BAD_CHECKPOINT: lean_status = 300;
/// The checkpoint belongs to something else (strings `what`, `expected`, `found`).
pub const LEAN_INCOMPATIBLE: lean_status = 301;
/// An allocation was refused (number `wanted` in bytes, string `what`).
pub const LEAN_OUT_OF_MEMORY: lean_status = 400;
/// The device went away; states on it are gone, saved checkpoints are not.
pub const LEAN_DEVICE_LOST: lean_status = 401;
/// The device or backend cannot do this.
pub const LEAN_DEVICE: lean_status = 402;
/// A file other than a model cannot be read or written (strings `path`, `reason`).
pub const LEAN_IO: lean_status = 410;
/// The handle is in use: by a stream, or by a call on another thread.
pub const LEAN_BUSY: lean_status = 420;
/// Cancelled; the session is as it was before the call.
pub const LEAN_CANCELLED: lean_status = 500;
/// The time limit passed; the session is as it was before the call.
pub const LEAN_TIMEOUT: lean_status = 501;
/// A bug in lean.
pub const LEAN_INTERNAL: lean_status = 900;
/// A bug in lean: a panic was caught. The handles of the call answer every further call with this.
pub const LEAN_PANIC: lean_status = 901;

/// As a length: the string ends at its first NUL byte.
pub(crate) const CSTR: usize = usize::MAX;
/// As a number in an option: not given.
pub(crate) const NONE: u64 = u64::MAX;

/// Name and number of every status.
const NAMES: &[(lean_status, &std::ffi::CStr)] = &[
    (LEAN_OK, c"ok"),
    (LEAN_PENDING, c"pending"),
    (LEAN_END, c"end"),
    (LEAN_INVALID_ARGUMENT, c"invalid_argument"),
    (LEAN_TYPE, c"type"),
    (LEAN_TEMPLATE, c"template"),
    (LEAN_CONTEXT_OVERFLOW, c"context_overflow"),
    (LEAN_BUDGET_TOO_SMALL, c"budget_too_small"),
    (LEAN_TRUNCATED, c"truncated"),
    (LEAN_MODEL_IO, c"model_io"),
    (LEAN_BAD_MODEL, c"bad_model"),
    (LEAN_UNSUPPORTED_MODEL, c"unsupported_model"),
    (LEAN_BAD_CHECKPOINT, c"bad_checkpoint"),
    (LEAN_INCOMPATIBLE, c"incompatible"),
    (LEAN_OUT_OF_MEMORY, c"out_of_memory"),
    (LEAN_DEVICE_LOST, c"device_lost"),
    (LEAN_DEVICE, c"device"),
    (LEAN_IO, c"io"),
    (LEAN_BUSY, c"busy"),
    (LEAN_CANCELLED, c"cancelled"),
    (LEAN_TIMEOUT, c"timeout"),
    (LEAN_INTERNAL, c"internal"),
    (LEAN_PANIC, c"panic"),
];

/// The `LEAN_ABI_VERSION` of the library itself, which may be newer than the header's.
#[no_mangle]
pub extern "C" fn lean_abi_version() -> u32 {
    LEAN_ABI_VERSION
}

/// The library's version, such as "0.1.0". Static; never freed.
#[no_mangle]
pub extern "C" fn lean_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A status as a word, such as "context_overflow"; "unknown" for a number that this library does not know.
/// Static; never freed.
#[no_mangle]
pub extern "C" fn lean_status_name(status: lean_status) -> *const c_char {
    let known = NAMES.iter().find(|(number, _)| *number == status);
    known.map_or(c"unknown", |(_, name)| name).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lean_engine::Error;
    use std::ffi::CStr;

    /// One error of every kind, with the constant that stands for it.
    fn all() -> Vec<(Error, lean_status)> {
        let s = String::new;
        vec![
            (Error::InvalidArgument { what: s(), reason: s() }, LEAN_INVALID_ARGUMENT),
            (Error::Type { at: s(), keyword: s(), reason: s() }, LEAN_TYPE),
            (Error::Template { reason: s() }, LEAN_TEMPLATE),
            (Error::ContextOverflow { needed: 2, available: 1 }, LEAN_CONTEXT_OVERFLOW),
            (Error::BudgetTooSmall { needed: 2 }, LEAN_BUDGET_TOO_SMALL),
            (Error::ModelIo { path: s(), reason: s() }, LEAN_MODEL_IO),
            (Error::BadModel { what: s(), reason: s() }, LEAN_BAD_MODEL),
            (Error::UnsupportedModel { what: s(), reason: s() }, LEAN_UNSUPPORTED_MODEL),
            (Error::BadCheckpoint { what: s(), reason: s() }, LEAN_BAD_CHECKPOINT),
            (Error::Incompatible { what: s(), expected: s(), found: s() }, LEAN_INCOMPATIBLE),
            (Error::OutOfMemory { wanted: 1, what: s() }, LEAN_OUT_OF_MEMORY),
            (Error::DeviceLost { reason: s() }, LEAN_DEVICE_LOST),
            (Error::Device { reason: s() }, LEAN_DEVICE),
            (Error::Io { path: s(), reason: s() }, LEAN_IO),
            (Error::Busy { what: s() }, LEAN_BUSY),
            (Error::Cancelled, LEAN_CANCELLED),
            (Error::Timeout, LEAN_TIMEOUT),
            (Error::Internal(s()), LEAN_INTERNAL),
            (Error::Panic(s()), LEAN_PANIC),
        ]
    }

    #[test]
    fn statuses_are_the_engines_codes_and_names() {
        let all = all();
        for (error, status) in &all {
            assert_eq!(error.code() as lean_status, *status, "{error:?}");
            // SAFETY: the names are static C strings.
            let name = unsafe { CStr::from_ptr(lean_status_name(*status)) };
            assert_eq!(name.to_str(), Ok(error.name()));
        }
        // Ok, end, pending, and `truncated`, which is reserved.
        assert_eq!(NAMES.len(), all.len() + 4, "a status without an error, or the reverse");
    }

    #[test]
    fn unknown_statuses_have_a_name_too() {
        for status in [-1, 3, 99, 902, i32::MAX, i32::MIN] {
            // SAFETY: as above.
            assert_eq!(unsafe { CStr::from_ptr(lean_status_name(status)) }, c"unknown");
        }
    }
}
