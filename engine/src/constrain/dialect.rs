//! What the drafts of JSON Schema differ in, and what is known of keywords before they are read.

use super::pointer;
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Nesting of a schema; far beyond real ones, and little enough for recursion.
const MAX_DEPTH: usize = 100;
/// Values in a schema, all together.
const MAX_VALUES: usize = 200_000;
/// Bytes of all strings in a schema.
const MAX_TEXT: usize = 8 << 20;

/// Keywords whose values are maps of schemas.
pub(super) const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords whose values are schemas or lists of them.
pub(super) const APPLIED: [&str; 15] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// A draft, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
}

impl Dialect {
    /// Whether everything beside `$ref` is ignored.
    pub fn ref_stands_alone(self) -> bool {
        matches!(self, Dialect::Draft4 | Dialect::Draft6 | Dialect::Draft7)
    }

    /// Whether `items` may be an array of schemas.
    pub fn has_item_lists(self) -> bool {
        self != Dialect::Draft2020
    }

    /// Whether `contains` has `minContains` and `maxContains` beside it.
    pub fn counts_contained(self) -> bool {
        matches!(self, Dialect::Draft2019 | Dialect::Draft2020)
    }

    /// Whether the items that `contains` finds are evaluated by it.
    pub fn contains_evaluates(self) -> bool {
        self == Dialect::Draft2020
    }

    /// The same draft for the independent validator.
    pub fn draft(self) -> lean_validate::Draft {
        match self {
            Dialect::Draft4 => lean_validate::Draft::Draft4,
            Dialect::Draft6 => lean_validate::Draft::Draft6,
            Dialect::Draft7 => lean_validate::Draft::Draft7,
            Dialect::Draft2019 => lean_validate::Draft::Draft201909,
            Dialect::Draft2020 => lean_validate::Draft::Draft202012,
        }
    }
}

/// The draft that a schema names or, without a name, gives away by its keywords; otherwise 2020-12.
pub(super) fn detect(root: &Value) -> Dialect {
    let named = root.get("$schema").and_then(Value::as_str).unwrap_or("");
    for (part, dialect) in [
        ("draft-04", Dialect::Draft4),
        ("draft-03", Dialect::Draft4),
        ("draft-06", Dialect::Draft6),
        ("draft-07", Dialect::Draft7),
        ("2019-09", Dialect::Draft2019),
        ("2020-12", Dialect::Draft2020),
    ] {
        if named.contains(part) {
            return dialect;
        }
    }
    let mut found = Dialect::Draft2020;
    each_schema(root, &mut |map, _| {
        let boolean = |k: &str| map.get(k).is_some_and(Value::is_boolean);
        if boolean("exclusiveMinimum") || boolean("exclusiveMaximum") {
            found = Dialect::Draft4;
        } else if found == Dialect::Draft2020
            && (map.contains_key("additionalItems") || map.get("items").is_some_and(Value::is_array))
        {
            found = Dialect::Draft7;
        }
    });
    found
}

/// Refuses schemas too deep or too large to be looked at.
pub(super) fn check_size(root: &Value) -> Result<()> {
    let (mut values, mut text) = (0usize, 0usize);
    let mut todo = vec![(root, 0usize)];
    while let Some((value, depth)) = todo.pop() {
        values += 1;
        match value {
            Value::Array(items) => todo.extend(items.iter().map(|v| (v, depth + 1))),
            Value::Object(map) => {
                text += map.keys().map(String::len).sum::<usize>();
                todo.extend(map.values().map(|v| (v, depth + 1)));
            }
            Value::String(s) => text += s.len(),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::ty("", "schema", format!("nested deeper than {MAX_DEPTH}")));
        }
        if values > MAX_VALUES || text > MAX_TEXT {
            return Err(Error::ty(
                "",
                "schema",
                format!("larger than {MAX_VALUES} values or {MAX_TEXT} bytes"),
            ));
        }
    }
    Ok(())
}

/// Calls `f` with every object of the document that may be a schema, and its pointer.
fn each_schema<'a>(root: &'a Value, f: &mut dyn FnMut(&'a Map<String, Value>, &str)) {
    let mut todo = vec![(root, String::new())];
    while let Some((value, at)) = todo.pop() {
        match value {
            Value::Array(items) => {
                todo.extend(items.iter().enumerate().map(|(i, v)| (v, format!("{at}/{i}"))));
            }
            Value::Object(map) => {
                f(map, &at);
                let data = ["enum", "const", "default", "examples", "example"];
                let inner = map.iter().filter(|(k, _)| !data.contains(&k.as_str()));
                todo.extend(inner.map(|(k, v)| (v, format!("{at}/{}", pointer::escape(k)))));
            }
            _ => {}
        }
    }
}

/// Pointers of resources by `$id`, and of places by `base#anchor`.
pub(super) fn anchors(root: &Value, dialect: Dialect) -> HashMap<String, String> {
    let mut found = Vec::new();
    each_schema(root, &mut |map, at| {
        let text = |k: &str| map.get(k).and_then(Value::as_str);
        for id in [text("$id"), text("id")].into_iter().flatten() {
            match id.strip_prefix('#') {
                Some(anchor) if !anchor.is_empty() => found.push((Some(anchor.to_string()), at.to_string())),
                _ => found.push((None, format!("{}\n{at}", id.trim_end_matches('#')))),
            }
        }
        if let Some(anchor) = text("$anchor") {
            found.push((Some(anchor.to_string()), at.to_string()));
        }
    });
    let mut by_name = HashMap::new();
    for (anchor, at) in found {
        match anchor {
            Some(anchor) => by_name.insert(format!("{}#{anchor}", base_of(root, &at, dialect)), at),
            None => at.split_once('\n').and_then(|(id, at)| by_name.insert(id.to_string(), at.to_string())),
        };
    }
    by_name
}

/// Whether `#` inside this schema means the schema itself.
pub(super) fn opens_resource(map: &Map<String, Value>, dialect: Dialect) -> bool {
    let key = if dialect == Dialect::Draft4 { "id" } else { "$id" };
    map.get(key).and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'))
}

/// The pointer of the resource that a place belongs to: the nearest `$id` above it.
pub(super) fn base_of(root: &Value, at: &str, dialect: Dialect) -> String {
    let mut end = at.len();
    loop {
        let here = &at[..end];
        let opens =
            pointer::get(root, here).and_then(Value::as_object).is_some_and(|m| opens_resource(m, dialect));
        if opens || here.is_empty() {
            return here.to_string();
        }
        end = here.rfind('/').unwrap_or(0);
    }
}

/// Whether a schema takes `null` beside its type, as OpenAPI says it.
pub(super) fn is_nullable(map: &Map<String, Value>) -> bool {
    map.get("nullable") == Some(&Value::Bool(true)) && map.contains_key("type")
}

/// Keywords that say what kinds of values there are, and how they are bounded.
pub(super) fn constrains_kind(keyword: &str) -> bool {
    keyword == "type" || kind_of(keyword).is_some()
}

/// The kind of value that a keyword speaks of.
pub(super) fn kind_of(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "uniqueItems"
        | "contains" | "minContains" | "maxContains" | "unevaluatedItems" => "array",
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "required"
        | "minProperties"
        | "maxProperties"
        | "propertyNames"
        | "unevaluatedProperties" => "object",
        _ => return None,
    })
}

/// Keywords that say nothing about what is valid.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "example"
            | "examples"
            | "$comment"
            | "readOnly"
            | "writeOnly"
            | "deprecated"
            | "nullable"
            | "contentMediaType"
            | "contentEncoding"
            | "contentSchema"
            | "$schema"
            | "$id"
            | "id"
            | "$anchor"
            | "$defs"
            | "definitions"
            | "$vocabulary"
            | "$dynamicAnchor"
            | "$recursiveAnchor"
    )
}

/// Keywords of any kind.
pub(super) fn is_keyword(name: &str) -> bool {
    let others = [
        "$ref",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "$dynamicRef",
        "$recursiveRef",
    ];
    constrains_kind(name) || is_annotation(name) || others.contains(&name)
}

/// Why a known keyword cannot be enforced.
pub(super) fn refused(keyword: &str) -> Option<&'static str> {
    match keyword {
        "$dynamicRef" | "$recursiveRef" => Some("dynamic references are not followed"),
        _ => None,
    }
}
