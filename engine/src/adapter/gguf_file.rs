//! llama.cpp's adapter files: a GGUF with `general.type = adapter` and tensors `<base tensor>.lora_a`, `.lora_b`.
//!
//! The update is `B A * alpha / rank`, or `B A` where alpha is 0 (llama-adapter.cpp). Rows lie as in the model
//! file already.

use super::parts::Parts;

use crate::error::{try_zeroed, Error, Result};
use crate::gguf::shown;
use crate::gguf::{Gguf, TensorInfo};
use crate::model::Targets;
use crate::quant::dequantize_row;

/// The updates of an adapter, not yet joined.
pub(super) fn read(gguf: &Gguf, architecture: &str, targets: &Targets) -> Result<Parts> {
    let m = &gguf.metadata;
    let unsupported = |key: &str, reason: String| Err(Error::unsupported(format!("adapter: {key}"), reason));
    match m.str("general.type")? {
        "adapter" => {}
        other => return unsupported("general.type", format!("{} is not adapter", shown(other))),
    }
    match m.str("adapter.type")? {
        "lora" => {}
        other => return unsupported("adapter.type", format!("{} is not lora", shown(other))),
    }
    let made_for = m.str("general.architecture")?;
    if made_for != architecture {
        let reason = format!("made for {}, this model is {architecture}", shown(made_for));
        return unsupported("general.architecture", reason);
    }
    if m.get("adapter.alora.invocation_tokens").is_some() {
        return unsupported("adapter.alora.invocation_tokens", "activated LoRA is not supported".into());
    }
    let alpha = m.f32("adapter.lora.alpha")?;
    if !alpha.is_finite() {
        return Err(Error::bad_model("adapter: adapter.lora.alpha", format_args!("it is {alpha}")));
    }
    let mut parts = Parts::default();
    for (name, info) in &gguf.tensors {
        let (base, is_b) = match (name.strip_suffix(".lora_a"), name.strip_suffix(".lora_b")) {
            (Some(base), _) => (base, false),
            (_, Some(base)) => (base, true),
            _ => {
                let reason = "it is neither lora_a nor lora_b of a tensor";
                return Err(Error::unsupported(format!("adapter tensor {}", shown(name)), reason));
            }
        };
        let Some(target) = targets.get(base) else {
            return Err(no_target(name, base, targets));
        };
        let (rows, cols, values) = matrix(gguf, name, info)?;
        let part = parts.part(base, *target);
        if is_b {
            part.factor = if alpha == 0.0 { 1.0 } else { alpha / cols as f32 };
            part.set_b(name, rows, cols, values)?;
        } else {
            part.set_a(name, rows, cols, values)?;
        }
    }
    Ok(parts)
}

fn no_target(name: &str, base: &str, targets: &Targets) -> Error {
    let what = format!("adapter tensor {}", shown(name));
    let layer = |n: &str| n.split('.').nth(1).and_then(|n| n.parse::<usize>().ok());
    let layers = targets.keys().filter_map(|n| layer(n)).max().map_or(0, |n| n + 1);
    if base.starts_with("blk.") && layer(base).is_some_and(|n| n >= layers) {
        return Error::bad_model(what, format_args!("the model has {layers} layers"));
    }
    let reason =
        "only the projections of attention and feed-forward can be updated, not embeddings or the head";
    Error::unsupported(what, reason)
}

/// Rows, columns and numbers of a tensor of two dimensions.
fn matrix(gguf: &Gguf, name: &str, info: &TensorInfo) -> Result<(usize, usize, Vec<f32>)> {
    let what = || format!("adapter tensor {}", shown(name));
    let size = |n: u64| usize::try_from(n).ok();
    let (Some(cols), Some(rows), true) = (
        info.dims.first().and_then(|&n| size(n)),
        info.dims.get(1).map_or(Some(1), |&n| size(n)),
        info.dims.iter().skip(2).all(|&n| n == 1),
    ) else {
        return Err(Error::bad_model(
            what(),
            format_args!("its shape is {:?}, expected two dimensions", info.dims),
        ));
    };
    let Some(dtype) = info.dtype else {
        return Err(Error::unsupported(what(), format_args!("its type is {}", info.type_name())));
    };
    let elems = rows.checked_mul(cols).ok_or_else(|| Error::bad_model(what(), "its shape overflows"))?;
    let mut values = try_zeroed(elems, &what())?;
    dequantize_row(dtype, &gguf.read(name)?, &mut values)?;
    Ok((rows, cols, values))
}
