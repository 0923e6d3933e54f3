//! The types of values.

use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::model::text_out;
use crate::status::lean_status;
use crate::text::Text;
use lean_engine::{Error, Result, Type, TypeSource};
use std::ffi::c_char;

/// What is generated and nothing else. Immutable, usable from many threads at once, and with every model.
pub struct lean_type {
    _opaque: [u8; 0],
}
opaque!(lean_type, Compiled, b"type");

pub(crate) struct Compiled {
    pub ty: Type,
    schema: Text,
    warnings: Text,
}

fn compiled(ty: Type) -> Result<*mut lean_type> {
    for warning in ty.warnings() {
        crate::log::warning(&format!("type: {warning}"));
    }
    let warnings = Text::new(crate::model::json_text(&ty.warnings())?);
    Ok(handle::new::<lean_type>(Compiled { schema: Text::new(ty.json_schema().to_string()), warnings, ty }))
}

/// A type expression: JSON whose leaves are strings such as "number", "string < 64", "'bug' | 'feature'",
/// "string[] <= 5" (a property whose name ends with "?" may be absent), or a bare leaf. Free `type` with
/// `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_expr(
    json: *const c_char,
    length: usize,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        out.set(compiled(Type::expr(input::text("json", json, length)?)?)?);
        Ok(())
    })
}

/// A JSON Schema. Free `type` with `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_schema(
    json: *const c_char,
    length: usize,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        out.set(compiled(Type::schema(input::text("json", json, length)?)?)?);
        Ok(())
    })
}

/// Plain text of at most `max_chars` characters; `LEAN_NONE` is as long as the token budget lasts. Free
/// `type` with `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_text(
    max_chars: u64,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        out.set(compiled(Type::from_source(TypeSource::Text {
            max_chars: input::number("max_chars", max_chars)?,
        })?)?);
        Ok(())
    })
}

/// Plain text that matches a regular expression as a whole. Free `type` with `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_regex(
    pattern: *const c_char,
    length: usize,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        out.set(compiled(Type::from_source(TypeSource::Regex(
            input::text("pattern", pattern, length)?.to_string(),
        ))?)?);
        Ok(())
    })
}

/// Plain text: one of `count` strings. `lengths` is NULL if all are NUL-terminated. Free `type` with
/// `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_choice(
    choices: *const *const c_char,
    lengths: *const usize,
    count: usize,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        out.set(compiled(Type::from_source(TypeSource::Choice(input::texts(
            "choices", choices, lengths, count,
        )?))?)?);
        Ok(())
    })
}

/// A type as it travels between programs: `{"expr": ...}`, `{"schema": ...}`, `{"text": {"max_chars": 9}}`,
/// `{"regex": "..."}`, `{"choice": ["...", ...]}`, or
/// `{"tools": {"tools": [...], "choice": "auto"}}`, whose value is `{"text": "...", "calls": [{"name", "arguments"}]}`:
/// text, or calls of tools in the model's own syntax (`choice` may also be `"required"` or `{"tool": "name"}`). Free `type` with `lean_type_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_type_json(
    json: *const c_char,
    length: usize,
    r#type: *mut *mut lean_type,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let out = Out::new("type", r#type)?;
        let source = serde_json::from_str(input::text("json", json, length)?);
        let place =
            |e: serde_json::Error| Error::ty(format!("line {} column {}", e.line(), e.column()), "source", e);
        out.set(compiled(Type::from_source(source.map_err(place)?)?)?);
        Ok(())
    })
}

/// The JSON Schema that values satisfy; for text types that of the string. NUL-terminated; `length` may be
/// NULL. Borrowed until the type is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_type_get_schema(
    r#type: *const lean_type,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [r#type], { text_out(&handle::get(r#type)?.schema, json, length) })
}

/// Unknown keywords and formats that were taken as annotations, as a JSON array of strings. NUL-terminated;
/// `length` may be NULL. Borrowed until the type is freed.
#[no_mangle]
pub unsafe extern "C" fn lean_type_get_warnings(
    r#type: *const lean_type,
    json: *mut *const c_char,
    length: *mut usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [r#type], { text_out(&handle::get(r#type)?.warnings, json, length) })
}

/// Frees the type. NULL does nothing. Streams that use it go on.
#[no_mangle]
pub unsafe extern "C" fn lean_type_free(r#type: *mut lean_type) {
    // SAFETY: the header's rules.
    unsafe { handle::free(r#type) }
}
