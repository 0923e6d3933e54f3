//! JSON into values, strictly: duplicate keys are an error rather than a silent choice.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Why a text is no JSON, and at which character (from 1) if that is known.
pub(super) struct StrictError {
    pub character: Option<usize>,
    pub reason: String,
}

/// Parses one JSON value and nothing else; nesting is bounded by serde_json (128).
pub(super) fn parse(text: &str) -> Result<Value, StrictError> {
    let mut de = serde_json::Deserializer::from_str(text);
    Strict.deserialize(&mut de).and_then(|v| de.end().map(|()| v)).map_err(|e| {
        let reason = e.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason).to_string();
        StrictError { character: character(text, e.line(), e.column()), reason }
    })
}

/// The character of a line and column; serde_json counts columns in bytes.
fn character(text: &str, line: usize, column: usize) -> Option<usize> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let end = (start + column).min(text.len());
    let prefix = text.as_bytes().get(..end)?;
    Some(String::from_utf8_lossy(prefix).chars().count().max(1))
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }
    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }
    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }
    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Value, E> {
        Number::from_f64(n).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }
    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.to_string()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("duplicate key {key:?}")));
            }
            map.insert(key, access.next_value_seed(Strict)?);
        }
        Ok(Value::Object(map))
    }
}
