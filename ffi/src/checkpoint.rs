//! Points to continue from.

use crate::bytes::{self, lean_bytes};
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::json_text;
use crate::status::lean_status;
use lean_engine::Checkpoint;
use std::ffi::c_char;

/// A point to continue from, exactly: the tokens, the state that they filled, and a value in progress, if it
/// was taken inside one. Immutable, usable from many threads at once; outlives what it was taken from.
pub struct lean_checkpoint {
    _opaque: [u8; 0],
}
opaque!(lean_checkpoint, Checkpoint, b"ckpt");

/// A self-contained copy. Free `bytes` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_to_bytes(
    checkpoint: *const lean_checkpoint,
    bytes: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [checkpoint], {
        let (checkpoint, out) = (handle::get(checkpoint)?, Out::new("bytes", bytes)?);
        out.set(bytes::raw(checkpoint.to_bytes()?));
        Ok(())
    })
}

/// A checkpoint from a copy. Damage of a single bit is `LEAN_BAD_CHECKPOINT`; whether it belongs to a model
/// is found out when it is restored. The bytes are only used during the call. Free `checkpoint` with
/// `lean_checkpoint_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_from_bytes(
    data: *const u8,
    length: usize,
    checkpoint: *mut *mut lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("checkpoint", checkpoint)?;
        out.set(handle::new(Checkpoint::from_bytes(input::slice("data", data, length)?)?));
        Ok(())
    })
}

/// Writes the copy to a file, which is always either the old one or the whole new one. The number of bytes
/// goes to `written`, which may be NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_save(
    checkpoint: *const lean_checkpoint,
    path: *const c_char,
    path_length: usize,
    written: *mut u64,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [checkpoint], {
        let (checkpoint, written) = (handle::get(checkpoint)?, input::optional_out("written", written)?);
        let bytes = checkpoint.save(input::path("path", path, path_length)?)?;
        if let Some(written) = written {
            written.set(bytes);
        }
        Ok(())
    })
}

/// Reads a file written by `lean_checkpoint_save`. Free `checkpoint` with `lean_checkpoint_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_load(
    path: *const c_char,
    path_length: usize,
    checkpoint: *mut *mut lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("checkpoint", checkpoint)?;
        out.set(handle::new(Checkpoint::load(input::path("path", path, path_length)?)?));
        Ok(())
    })
}

/// What the checkpoint is, as a JSON object: fingerprint, exactness_class, tokens, filled, in_value,
/// state_bytes. Free `json` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_info(
    checkpoint: *const lean_checkpoint,
    json: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [checkpoint], {
        let (checkpoint, json) = (handle::get(checkpoint)?, Out::new("json", json)?);
        json.set(bytes::text(json_text(&checkpoint.info()?)?));
        Ok(())
    })
}

/// Token ids of the sequence. Borrowed until the checkpoint is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_tokens(
    checkpoint: *const lean_checkpoint,
    ids: *mut *const u32,
    count: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [checkpoint], {
        let tokens = handle::get(checkpoint)?.tokens();
        let (ids, count) = (Out::new("ids", ids)?, Out::new("count", count)?);
        ids.set(tokens.as_ptr());
        count.set(tokens.len());
        Ok(())
    })
}

/// Frees the checkpoint. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_free(checkpoint: *mut lean_checkpoint) {
    // SAFETY: the header's rules.
    unsafe { handle::free(checkpoint) }
}
