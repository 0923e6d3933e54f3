//! Loaded models.

use crate::bytes::{self, lean_bytes};
use crate::context::lean_context;
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::options::{self, lean_generate_options, lean_load_options};
use crate::output::{self, lean_output};
use crate::status::lean_status;
use crate::stream::request;
use crate::text::Text;
use crate::types::lean_type;
use lean_engine::{Chat, Error, Model, Result};
use std::ffi::c_char;
use std::io::Cursor;

/// A loaded model: immutable, usable from many threads at once.
pub struct lean_model {
    _opaque: [u8; 0],
}
opaque!(lean_model, Loaded, b"modl");

pub(crate) struct Loaded {
    pub model: Model,
    info: Text,
}

fn loaded(model: Model) -> Result<*mut lean_model> {
    let info = model.info();
    crate::log::info(&format!(
        "loaded {} ({}) on {}: {}",
        info.name, info.architecture, info.backend, info.device
    ));
    let info = Text::new(json_text(info)?);
    Ok(handle::new::<lean_model>(Loaded { model, info }))
}

pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Internal(format!("as JSON: {e}")))
}

/// Loads a GGUF file. `options` may be NULL. Free the model with `lean_model_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_model_load(
    path: *const c_char,
    path_length: usize,
    options: *const lean_load_options,
    model: *mut *mut lean_model,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let model = Out::new("model", model)?;
        let path = input::path("path", path, path_length)?;
        let options = options::read(options)?.options()?;
        model.set(loaded(Model::load(path, options)?)?);
        Ok(())
    })
}

/// Loads a GGUF file that is in memory. The bytes are only used during the call. `options` may be NULL. Free
/// the model with `lean_model_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_model_load_bytes(
    data: *const u8,
    length: usize,
    options: *const lean_load_options,
    model: *mut *mut lean_model,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let model = Out::new("model", model)?;
        let bytes: &'static [u8] = input::slice("data", data, length)?;
        let options = options::read(options)?.options()?;
        // The reader ends with the load, so that nothing refers to the caller's bytes afterwards.
        model.set(loaded(Model::from_reader(Cursor::new(bytes), options)?)?);
        Ok(())
    })
}

/// What a GGUF file asks for, without loading it: a JSON object with architecture, name, parameters,
/// file_bytes, weight_bytes, state_bytes_per_token, state_bytes_fixed, context_length (also a session's default), vocab_size, layers,
/// max_memory_bytes (an estimate for a session of context_length tokens). Free `json` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_model_plan(
    path: *const c_char,
    path_length: usize,
    json: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let json = Out::new("json", json)?;
        let plan = Model::plan(input::path("path", path, path_length)?)?;
        json.set(bytes::text(json_text(&plan)?));
        Ok(())
    })
}

/// What the model says about itself: a JSON object with what `lean_model_plan` has and backend, device,
/// exactness_class, fingerprint, bos, eos, has_chat_template. NUL-terminated; `length` may be NULL.
/// Borrowed until the model is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_model_info(
    model: *const lean_model,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let info = &handle::get(model)?.info;
        text_out(info, json, length)
    })
}

/// Estimate of the memory that the model takes with one session of `context` tokens: weights, state in whole
/// pages, and a row of logits. What is kept of earlier contexts comes on top (`lean_model_set_prefix_cache`).
#[no_mangle]
pub unsafe extern "C" fn lean_model_memory_bytes(
    model: *const lean_model,
    context: usize,
    bytes: *mut u64,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, bytes) = (handle::get(model)?, Out::new("bytes", bytes)?);
        bytes.set(model.model.info().memory_bytes(context));
        Ok(())
    })
}

/// Hands out a borrowed text.
///
/// # Safety
/// The pointers are NULL or writable.
pub(crate) unsafe fn text_out(text: &Text, data: *mut *const c_char, length: *mut usize) -> Result<()> {
    // SAFETY: passed on.
    let (data, length) = unsafe { (Out::new("text", data)?, input::optional_out("length", length)?) };
    data.set(text.ptr());
    if let Some(length) = length {
        length.set(text.len());
    }
    Ok(())
}

/// Ids of a context as they would start a session. Writes at most `capacity` of them to `ids` (NULL with
/// capacity 0, which counts them) and their number to `count`, which may be more.
#[no_mangle]
pub unsafe extern "C" fn lean_model_tokenize(
    model: *const lean_model,
    context: *const lean_context,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let model = handle::get(model)?;
        let content = handle::get(context)?.read()?;
        let tokens = model.model.tokenize(content.blocks_only()?)?;
        input::copy_out("ids", &tokens, ids, capacity, count)
    })
}

/// Text of ids, control tokens left out unless `keep_control`; bytes that are no UTF-8 become U+FFFD. Free
/// `text` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_model_detokenize(
    model: *const lean_model,
    ids: *const u32,
    count: usize,
    keep_control: bool,
    text: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, text) = (handle::get(model)?, Out::new("text", text)?);
        let ids = input::slice("ids", ids, count)?;
        text.set(bytes::text(model.model.decode(ids, keep_control)));
        Ok(())
    })
}

/// A conversation as text, by the model's chat template. The JSON is that of `lean_context_add_chat`. Free
/// `text` with `lean_bytes_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_model_render_chat(
    model: *const lean_model,
    json: *const c_char,
    length: usize,
    text: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, text) = (handle::get(model)?, Out::new("text", text)?);
        let chat: Chat = crate::context::chat(input::json("json", json, length)?)?;
        text.set(bytes::text(model.model.render_chat(&chat)?));
        Ok(())
    })
}

/// An ordered context in, a value out, in one call. Nothing is kept. `context` may be NULL (empty);
/// `options` may be NULL; its `events` play no part. Free `output` with `lean_output_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_generate(
    model: *const lean_model,
    context: *const lean_context,
    r#type: *const lean_type,
    options: *const lean_generate_options,
    output: *mut *mut lean_output,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, output) = (handle::get(model)?, Out::new("output", output)?);
        let request = request(r#type, &options::read(options)?)?;
        let content = handle::optional(context)?.map(|context| context.read()).transpose()?;
        let context = content.as_ref().map(|content| content.context()).unwrap_or_default();
        output.set(output::new(model.model.generate(context, &request)?));
        Ok(())
    })
}

/// Frees the model. NULL does nothing. Its sessions, streams and checkpoints stay usable; the memory goes
/// with the last of them.
#[no_mangle]
pub unsafe extern "C" fn lean_model_free(model: *mut lean_model) {
    // SAFETY: the header's rules.
    unsafe { handle::free(model) }
}
