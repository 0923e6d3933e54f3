//! Points to continue from.

use crate::bytes::{self, lean_bytes};
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::json_text;
use crate::status::lean_status;
use lean_engine::{Checkpoint, SaveOptions};
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

/// A copy that is compressed (`compress` not 0: zstd, where it makes the state smaller), or, with `parent` not NULL,
/// holds only what differs from that checkpoint, which is then needed to read it. `LEAN_INCOMPATIBLE` if the parent is
/// of another model or exactness class. Free `bytes` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_to_bytes_with(
    checkpoint: *const lean_checkpoint,
    compress: i32,
    parent: *const lean_checkpoint,
    bytes: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [checkpoint], {
        let (checkpoint, out) = (handle::get(checkpoint)?, Out::new("bytes", bytes)?);
        let parent = if parent.is_null() { None } else { Some(handle::get(parent)?) };
        out.set(bytes::raw(checkpoint.to_bytes_with(&SaveOptions { compress: compress != 0, parent })?));
        Ok(())
    })
}

/// A checkpoint from a copy that was made with a parent. `LEAN_INCOMPATIBLE` if this is not the parent it was made
/// with. A copy that was made without one needs none and ignores it. Free `checkpoint` with `lean_checkpoint_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_from_delta(
    data: *const u8,
    length: usize,
    parent: *const lean_checkpoint,
    checkpoint: *mut *mut lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [parent], {
        let (parent, out) = (handle::get(parent)?, Out::new("checkpoint", checkpoint)?);
        out.set(handle::new(Checkpoint::from_delta(input::slice("data", data, length)?, parent)?));
        Ok(())
    })
}

/// Checks every byte of a copy and says what is in it, as a JSON object: what `lean_checkpoint_info` says, and version,
/// file_bytes, stored_state_bytes, compression, parent_pages, page_tokens, attention_layers, window_layers, capacity.
/// No model and no parent is needed. Free `json` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_checkpoint_inspect(
    data: *const u8,
    length: usize,
    json: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let json = Out::new("json", json)?;
        let file = Checkpoint::inspect(input::slice("data", data, length)?)?;
        json.set(bytes::text(json_text(&file)?));
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
