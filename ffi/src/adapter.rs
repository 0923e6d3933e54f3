//! LoRA adapters.

use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::{json_text, lean_model, text_out};
use crate::options::{self, lean_prefill_options};
use crate::session::lean_session;
use crate::status::lean_status;
use crate::text::Text;
use lean_engine::{Adapter, Error};
use std::ffi::c_char;

/// A loaded LoRA adapter of one model: immutable, usable from many threads at once.
pub struct lean_adapter {
    _opaque: [u8; 0],
}
opaque!(lean_adapter, LoadedAdapter, b"lora");

pub(crate) struct LoadedAdapter {
    adapter: Adapter,
    info: Text,
}

/// Reads an adapter for a model: a .gguf file as llama.cpp writes them, or PEFT's folder with adapter_config.json
/// and adapter_model.safetensors. Free `adapter` with `lean_adapter_free`; sessions that use it keep it alive, and
/// while it is alive, checkpoints that were made with it can be restored.
#[no_mangle]
pub unsafe extern "C" fn lean_adapter_load(
    model: *const lean_model,
    path: *const c_char,
    path_length: usize,
    adapter: *mut *mut lean_adapter,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [model], {
        let (model, out) = (handle::get(model)?, Out::new("adapter", adapter)?);
        let adapter = model.model.load_adapter(input::text("path", path, path_length)?)?;
        let info = Text::new(json_text(adapter.info())?);
        out.set(handle::new::<lean_adapter>(LoadedAdapter { adapter, info }));
        Ok(())
    })
}

/// What the adapter says about itself: a JSON object with name, format, matrices, ranks, bytes, fingerprint.
/// NUL-terminated; `length` may be NULL. Borrowed until the adapter is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_adapter_info(
    adapter: *const lean_adapter,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [adapter], {
        let info = &handle::get(adapter)?.info;
        text_out(info, json, length)
    })
}

/// Makes the session run with these adapters, each multiplied with its scale (NULL is 1 for all), and with no
/// others; none at all with `count` 0. Its tokens are run again. `options` may be NULL.
#[no_mangle]
pub unsafe extern "C" fn lean_session_set_adapters(
    session: *mut lean_session,
    adapters: *const *const lean_adapter,
    scales: *const f32,
    count: usize,
    options: *const lean_prefill_options,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [session], {
        let home = handle::get(session)?;
        let scales = match scales.is_null() {
            true => None,
            false => Some(input::slice("scales", scales, count)?),
        };
        let mut list = Vec::new();
        for (i, adapter) in input::slice("adapters", adapters, count)?.iter().enumerate() {
            let scale = scales.map_or(1.0, |all| all[i]);
            if !scale.is_finite() {
                return Err(Error::invalid(format!("scales[{i}]"), "is no finite number"));
            }
            list.push((handle::get(*adapter)?.adapter.clone(), scale));
        }
        let (cancel, progress) = options::read(options)?.parts()?;
        let report = |done, total| progress.report(done as u64, total as u64);
        home.with(|s| s.set_adapters_with(&list, &cancel, report))
    })
}

/// Frees the adapter. NULL does nothing. Sessions that use it keep it alive.
#[no_mangle]
pub unsafe extern "C" fn lean_adapter_free(adapter: *mut lean_adapter) {
    // SAFETY: the header's rules.
    unsafe { handle::free(adapter) }
}
