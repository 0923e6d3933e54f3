//! Which part of a schema is to blame where no value satisfies it.

use super::{emit, lower, pointer, read};
use crate::error::Error;
use serde_json::{Map, Value};

/// Parts that are tried, and values of the schema that is read for them, all together.
const MAX_TRIES: usize = 100;
const MAX_VALUES: usize = 20_000;

/// Why nothing is generated.
pub(super) const NO_VALUE: &str = "no finite value satisfies it";

/// An error that says no more than that gets the place of the smallest part of the schema that a value must have and
/// that has no value by itself, with the keywords without which it would have one.
pub(super) fn explained(error: Error, schema: &Value) -> Error {
    match &error {
        Error::Type { at, reason, .. } if at.is_empty() && reason == NO_VALUE => {}
        _ => return error,
    }
    let mut search = Search { tries: MAX_TRIES.min(MAX_VALUES / values(schema).max(1)) };
    if search.tries == 0 {
        return error;
    }
    let at = search.smallest(schema);
    let keywords = search.keywords(schema, &at);
    match keywords.as_slice() {
        [] => Error::ty(at, "schema", NO_VALUE),
        [one] => Error::ty(at, one.as_str(), NO_VALUE),
        several => {
            Error::ty(at, "schema", format!("{NO_VALUE}; without {} one would", several.join(" or without ")))
        }
    }
}

/// How many values a schema consists of; it nests 100 deep at most.
fn values(schema: &Value) -> usize {
    match schema {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

struct Search {
    tries: usize,
}

impl Search {
    /// Whether the schema at a pointer has a value; `None` if that cannot be said, or not any more.
    fn has_value(&mut self, root: &Value, at: &str) -> Option<bool> {
        self.tries = self.tries.checked_sub(1)?;
        let graph = read::read_at(root, at.to_string()).ok()?;
        let lowered = lower::lower(&graph, lower::JSON_WORDS).ok()?;
        Some(emit::has_values(&lowered.defs))
    }

    fn smallest(&mut self, root: &Value) -> String {
        let (mut at, mut seen) = (String::new(), vec![String::new()]);
        while let Some(Value::Object(map)) = pointer::get(root, &at) {
            let mut parts = parts(map, &at).into_iter();
            match parts.find(|part| !seen.contains(part) && self.has_value(root, part) == Some(false)) {
                Some(part) => at.clone_from(&part),
                None => break,
            }
            seen.push(at.clone());
        }
        at
    }

    /// Keywords of the schema at a pointer of which the lack of any one gives it a value.
    fn keywords(&mut self, root: &Value, at: &str) -> Vec<String> {
        let Some(Value::Object(map)) = pointer::get(root, at) else { return Vec::new() };
        let mut found = Vec::new();
        for keyword in map.keys().filter(|k| !super::dialect::is_annotation(k)) {
            let mut without = root.clone();
            if let Some(Value::Object(map)) = without.pointer_mut(at) {
                map.shift_remove(keyword);
            }
            if self.has_value(&without, at) == Some(true) {
                found.push(keyword.clone());
            }
        }
        found
    }
}

/// Pointers of what every value of a schema must satisfy, or have.
fn parts(map: &Map<String, Value>, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) {
        found.extend(pointer::percent_decode(target));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let all = map.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        let all = if keyword == "allOf" || all == 1 { all } else { 0 };
        found.extend((0..all).map(|i| format!("{at}/{keyword}/{i}")));
    }
    let properties = map.get("properties").and_then(Value::as_object);
    for key in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if properties.is_some_and(|p| p.contains_key(key)) {
            found.push(format!("{at}/properties/{}", pointer::escape(key)));
        }
    }
    let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let mut listed = 0;
    for keyword in ["prefixItems", "items"] {
        match map.get(keyword) {
            Some(Value::Array(items)) => {
                listed = items.len() as u64;
                found.extend((0..listed.min(least)).map(|i| format!("{at}/{keyword}/{i}")));
            }
            Some(_) if least > listed => found.push(format!("{at}/{keyword}")),
            _ => {}
        }
    }
    found
}
