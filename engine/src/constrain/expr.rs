//! Type expressions: a JSON value whose leaves are strings in ArkType's notation, into JSON Schema.

use super::expr_leaf::{self, LeafError};
use super::pointer;
use crate::error::{Error, Result};
use serde_json::{json, Map, Value};

/// Nesting of objects and tuples.
const MAX_DEPTH: usize = 64;

/// The JSON Schema of a type expression. Errors name the character of the leaf and the path to it.
pub(super) fn to_schema(expr: &Value) -> Result<Value> {
    value(expr, "", 0)
}

/// Reads the text of an expression: JSON, or a bare leaf such as `string < 64`.
pub(super) fn from_text(text: &str) -> Result<Value> {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '[', '"']) {
        let value = super::strict::parse(text).map_err(|e| match e.character {
            Some(n) => Error::ty(format!("character {n}"), "JSON", e.reason),
            None => Error::ty("expression", "JSON", e.reason),
        })?;
        super::exact::check(text)?;
        return Ok(value);
    }
    Ok(Value::String(text.to_string()))
}

fn value(expr: &Value, at: &str, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(Error::ty(at, "expression", format!("nested deeper than {MAX_DEPTH}")));
    }
    match expr {
        Value::String(text) => leaf(text, at),
        Value::Object(map) => object(map, at, depth),
        Value::Array(items) => tuple(items, at, depth),
        literal => Ok(json!({ "const": literal })),
    }
}

fn leaf(text: &str, at: &str) -> Result<Value> {
    expr_leaf::parse(text).map(|leaf| leaf.schema).map_err(|e| located(e, at))
}

fn located(e: LeafError, at: &str) -> Error {
    let place = match at {
        "" => format!("character {}", e.character),
        at => format!("character {} of {at}", e.character),
    };
    Error::ty(place, e.found, e.reason)
}

fn object(map: &Map<String, Value>, at: &str, depth: usize) -> Result<Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut additional = Value::Bool(false);
    for (key, expr) in map {
        let inner = format!("{at}/{}", pointer::escape(key));
        match key.as_str() {
            "..." => {
                return Err(Error::ty(inner, key, "spreading is not supported; write the properties out"))
            }
            "+" if expr == "reject" => continue,
            "+" => return Err(Error::ty(inner, key, "undeclared keys are always rejected")),
            "[string]" => {
                additional = value(expr, &inner, depth + 1)?;
                continue;
            }
            k if k.starts_with('[') && k.ends_with(']') => {
                return Err(Error::ty(inner, key, "index signatures take [string] only"));
            }
            _ => {}
        }
        let (name, optional) = match (key.strip_suffix("\\?"), key.strip_suffix('?')) {
            (Some(name), _) => (format!("{name}?"), false),
            (None, Some(name)) => (name.to_string(), true),
            (None, None) => (key.clone(), false),
        };
        if properties.insert(name.clone(), value(expr, &inner, depth + 1)?).is_some() {
            return Err(Error::ty(inner, key, "the property is declared twice"));
        }
        if !optional {
            required.push(name);
        }
    }
    Ok(json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": additional,
    }))
}

/// `["string", "number?", "...", "boolean[]"]`.
fn tuple(items: &[Value], at: &str, depth: usize) -> Result<Value> {
    let mut prefix = Vec::new();
    let mut required = 0;
    let mut rest = Value::Bool(false);
    let mut i = 0;
    while let Some(item) = items.get(i) {
        let inner = format!("{at}/{i}");
        if item == "..." {
            let last = items.get(i + 1).filter(|_| i + 2 == items.len());
            let schema = last.map(|e| value(e, &format!("{at}/{}", i + 1), depth + 1)).transpose()?;
            match schema
                .as_ref()
                .and_then(|s| s.get("items"))
                .filter(|_| schema.as_ref().is_some_and(is_plain_array))
            {
                Some(items) => rest = items.clone(),
                None => {
                    return Err(Error::ty(
                        inner,
                        "...",
                        "one array without bounds follows, and nothing after it",
                    ))
                }
            }
            break;
        }
        let optional = match item.as_str().map(str::trim_end).and_then(|s| s.strip_suffix('?')) {
            Some(text) if !text.ends_with('/') => {
                prefix.push(leaf(text, &inner)?);
                true
            }
            _ => {
                prefix.push(value(item, &inner, depth + 1)?);
                false
            }
        };
        if !optional && required < i {
            return Err(Error::ty(inner, "tuple", "a required item follows an optional one"));
        }
        required += !optional as usize;
        i += 1;
    }
    let mut schema = json!({ "type": "array", "prefixItems": prefix, "items": rest, "minItems": required });
    if prefix.is_empty() {
        if let Some(map) = schema.as_object_mut() {
            map.shift_remove("prefixItems");
        }
    }
    Ok(schema)
}

fn is_plain_array(schema: &Value) -> bool {
    schema.get("minItems").is_none()
        && schema.get("maxItems").is_none()
        && schema.get("prefixItems").is_none()
}
