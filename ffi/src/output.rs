//! Finished values.

use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::text_out;
use crate::options::{self, sized};
use crate::status::lean_status;
use crate::text::Text;
use lean_engine::{Error, Finish, Output, Result, Usage};
use serde_json::Value;
use std::ffi::c_char;
use std::mem::{offset_of, size_of};

/// The value is complete, or the model ended its text.
pub const LEAN_FINISH_COMPLETE: i32 = 0;
/// A stop string was met, which is not part of the text (text only).
pub const LEAN_FINISH_STOP: i32 = 1;
/// The token budget was reached (text only).
pub const LEAN_FINISH_LENGTH: i32 = 2;

/// `null`.
pub const LEAN_KIND_NULL: i32 = 0;
/// `true` or `false`.
pub const LEAN_KIND_BOOLEAN: i32 = 1;
/// A number.
pub const LEAN_KIND_NUMBER: i32 = 2;
/// A string.
pub const LEAN_KIND_STRING: i32 = 3;
/// An array.
pub const LEAN_KIND_ARRAY: i32 = 4;
/// An object.
pub const LEAN_KIND_OBJECT: i32 = 5;

/// A finished value with its text and counts. Immutable, usable from many threads at once.
pub struct lean_output {
    _opaque: [u8; 0],
}
opaque!(lean_output, Finished, b"outp");

/// Counts and times of one generation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lean_usage {
    /// `sizeof` of this struct.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Tokens of the context when the generation began.
    pub prompt_tokens: u64,
    /// Of those, tokens whose state was already there.
    pub reused_tokens: u64,
    /// Tokens chosen by the model.
    pub sampled_tokens: u64,
    /// Tokens that the type left no choice about.
    pub forced_tokens: u64,
    /// Passes over the weights.
    pub passes: u64,
    /// Seconds from the call to the first chosen token.
    pub first_token_seconds: f64,
    /// Seconds from the call to the end.
    pub total_seconds: f64,
    /// Value tokens per second after the first; 0 where there is nothing to measure.
    pub tokens_per_second: f64,
    /// Passes over the weights that forced tokens saved, since each ran together with another token.
    pub saved_passes: u64,
}

sized!(lean_usage {
    reserved,
    prompt_tokens,
    reused_tokens,
    sampled_tokens,
    forced_tokens,
    passes,
    first_token_seconds,
    total_seconds,
    tokens_per_second,
    saved_passes
});

impl lean_usage {
    fn defaults() -> Self {
        Self::new(&Usage::default())
    }

    fn new(usage: &Usage) -> Self {
        lean_usage {
            struct_size: size_of::<Self>() as u32,
            reserved: 0,
            prompt_tokens: usage.prompt_tokens as u64,
            reused_tokens: usage.reused_tokens as u64,
            sampled_tokens: usage.sampled_tokens as u64,
            forced_tokens: usage.forced_tokens as u64,
            passes: usage.passes as u64,
            first_token_seconds: usage.first_token_seconds,
            total_seconds: usage.total_seconds,
            tokens_per_second: usage.tokens_per_second(),
            saved_passes: usage.saved_passes as u64,
        }
    }
}

pub(crate) struct Finished {
    /// With a NUL byte behind every string (not the keys), so that C can borrow them.
    value: Value,
    json: Text,
    text: Text,
    finish: Finish,
    tokens: Vec<u32>,
    usage: lean_usage,
    confidence: Text,
}

pub(crate) fn new(mut output: Output) -> *mut lean_output {
    let json = Text::new(output.value.to_string());
    terminate(&mut output.value);
    handle::new::<lean_output>(Finished {
        value: output.value,
        json,
        text: Text::new(output.text),
        finish: output.finish,
        tokens: output.tokens,
        usage: lean_usage::new(&output.usage),
        confidence: Text::new(serde_json::to_string(&output.confidence).unwrap_or_else(|_| "null".into())),
    })
}

/// Recursion is bounded by the depth that the JSON parser accepts.
fn terminate(value: &mut Value) {
    match value {
        Value::String(text) => text.push('\0'),
        Value::Array(items) => items.iter_mut().for_each(terminate),
        Value::Object(map) => map.values_mut().for_each(terminate),
        _ => {}
    }
}

/// The part of a value that a JSON pointer names.
///
/// # Safety
/// As [`handle::get`] and [`input::text`].
unsafe fn at<'a>(
    output: *const lean_output,
    pointer: *const c_char,
    length: usize,
) -> Result<(&'a Value, String)> {
    // SAFETY: passed on.
    let (output, pointer) = unsafe { (handle::get(output)?, input::text("pointer", pointer, length)?) };
    let value = output.value.pointer(pointer);
    let value =
        value.ok_or_else(|| Error::invalid("pointer", format!("the value has nothing at {pointer:?}")))?;
    Ok((value, pointer.to_string()))
}

fn wrong(pointer: &str, wanted: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "another number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Error::invalid("pointer", format!("at {pointer:?} there is {found}, not {wanted}"))
}

/// The text as it was generated: compact JSON, or the plain text of a text type. NUL-terminated; `length` may
/// be NULL. Borrowed until the output is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_output_text(
    output: *const lean_output,
    text: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], { text_out(&handle::get(output)?.text, text, length) })
}

/// The value as JSON; for text types a JSON string. NUL-terminated; `length` may be NULL. Borrowed until the
/// output is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_output_json(
    output: *const lean_output,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], { text_out(&handle::get(output)?.json, json, length) })
}

/// How sure the model was, if `LEAN_GENERATE_CONFIDENCE` asked for it, as JSON (otherwise `null`):
/// `{"logprob": ..., "leaves": [{"path": "/kind", "logprob": ..., "alternatives": [{"value": ..., "probability": ...}]}]}`.
/// Logarithms are natural; alternatives are given where the type allows at most 64 values. NUL-terminated; `length` may
/// be NULL. Borrowed until the output is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_output_confidence(
    output: *const lean_output,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], { text_out(&handle::get(output)?.confidence, json, length) })
}

/// Why it ended: `LEAN_FINISH_*`.
#[no_mangle]
pub unsafe extern "C" fn lean_output_finish(
    output: *const lean_output,
    finish: *mut i32,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (output, finish) = (handle::get(output)?, Out::new("finish", finish)?);
        finish.set(match output.finish {
            Finish::Complete => LEAN_FINISH_COMPLETE,
            Finish::Stop => LEAN_FINISH_STOP,
            Finish::Length => LEAN_FINISH_LENGTH,
        });
        Ok(())
    })
}

/// Token ids of the value. Borrowed until the output is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_output_tokens(
    output: *const lean_output,
    ids: *mut *const u32,
    count: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let tokens = &handle::get(output)?.tokens;
        let (ids, count) = (Out::new("ids", ids)?, Out::new("count", count)?);
        ids.set(tokens.as_ptr());
        count.set(tokens.len());
        Ok(())
    })
}

/// Counts and times. Call `lean_usage_init` on `usage` first.
#[no_mangle]
pub unsafe extern "C" fn lean_output_usage(
    output: *const lean_output,
    usage: *mut lean_usage,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], { options::fill("usage", usage, handle::get(output)?.usage) })
}

/// Prepares the struct. `size` is `sizeof *usage`.
#[no_mangle]
pub unsafe extern "C" fn lean_usage_init(usage: *mut lean_usage, size: usize) {
    // SAFETY: the header's rules.
    unsafe { options::init(usage, size) }
}

/// The kind of the part of the value at a JSON pointer, such as "/tags/0"; "" is the whole: `LEAN_KIND_*`.
#[no_mangle]
pub unsafe extern "C" fn lean_output_kind(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    kind: *mut i32,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, _) = at(output, pointer, pointer_length)?;
        Out::new("kind", kind)?.set(match value {
            Value::Null => LEAN_KIND_NULL,
            Value::Bool(_) => LEAN_KIND_BOOLEAN,
            Value::Number(_) => LEAN_KIND_NUMBER,
            Value::String(_) => LEAN_KIND_STRING,
            Value::Array(_) => LEAN_KIND_ARRAY,
            Value::Object(_) => LEAN_KIND_OBJECT,
        });
        Ok(())
    })
}

/// The string at a JSON pointer. NUL-terminated (it may hold further NUL characters); `length` may be NULL.
/// Borrowed until the output is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_output_string(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    text: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, pointer) = at(output, pointer, pointer_length)?;
        let (text, length) = (Out::new("text", text)?, input::optional_out("length", length)?);
        let found = value.as_str().ok_or_else(|| wrong(&pointer, "a string", value))?;
        text.set(found.as_ptr().cast());
        if let Some(length) = length {
            length.set(found.len() - 1);
        }
        Ok(())
    })
}

/// The number at a JSON pointer, as the nearest double.
#[no_mangle]
pub unsafe extern "C" fn lean_output_number(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    number: *mut f64,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, pointer) = at(output, pointer, pointer_length)?;
        let number = Out::new("number", number)?;
        number.set(value.as_f64().ok_or_else(|| wrong(&pointer, "a number", value))?);
        Ok(())
    })
}

/// The integer at a JSON pointer. A number with a fraction, or one beyond 64 bits, is an error.
#[no_mangle]
pub unsafe extern "C" fn lean_output_integer(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    integer: *mut i64,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, pointer) = at(output, pointer, pointer_length)?;
        let integer = Out::new("integer", integer)?;
        integer.set(as_i64(value).ok_or_else(|| wrong(&pointer, "an integer of 64 bits", value))?);
        Ok(())
    })
}

/// JSON does not tell 2.0 from 2.
fn as_i64(value: &Value) -> Option<i64> {
    let whole =
        |x: &f64| x.fract() == 0.0 && (-9_007_199_254_740_992.0..=9_007_199_254_740_992.0).contains(x);
    value.as_i64().or_else(|| value.as_f64().filter(whole).map(|x| x as i64))
}

/// The boolean at a JSON pointer.
#[no_mangle]
pub unsafe extern "C" fn lean_output_boolean(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    boolean: *mut bool,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, pointer) = at(output, pointer, pointer_length)?;
        let boolean = Out::new("boolean", boolean)?;
        boolean.set(value.as_bool().ok_or_else(|| wrong(&pointer, "a boolean", value))?);
        Ok(())
    })
}

/// The number of items of the array, or of properties of the object, at a JSON pointer.
#[no_mangle]
pub unsafe extern "C" fn lean_output_count(
    output: *const lean_output,
    pointer: *const c_char,
    pointer_length: usize,
    count: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [output], {
        let (value, pointer) = at(output, pointer, pointer_length)?;
        let count = Out::new("count", count)?;
        count.set(match value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            other => return Err(wrong(&pointer, "an array or object", other)),
        });
        Ok(())
    })
}

/// Frees the output. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_output_free(output: *mut lean_output) {
    // SAFETY: the header's rules.
    unsafe { handle::free(output) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_are_those_that_a_double_cannot_blur() {
        for (value, want) in [
            (json!(7), Some(7)),
            (json!(-7.0), Some(-7)),
            (json!(1e15), Some(1_000_000_000_000_000)),
            (json!(0.5), None),
            (json!(1e300), None),
            (json!(u64::MAX), None),
            (json!(i64::MIN), Some(i64::MIN)),
            (json!("7"), None),
        ] {
            assert_eq!(as_i64(&value), want, "{value}");
        }
    }
}
