//! Types from outside end in a type or an error: no panic, no hang, no overflow.

use super::*;

fn nested(depth: usize, open: &str, close: &str, inner: &str) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// Compiles and, if that works, takes a mask.
fn survives(schema: Value) {
    if let Ok(ty) = Type::schema_value(schema) {
        if let Ok(mut matcher) = Matcher::new(&ty, &vocabulary()) {
            let _ = matcher.forced();
            let _ = matcher.mask();
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for text in [
        nested(120, r#"{"items":"#, "}", "{}"),
        nested(60, r#"{"not":"#, "}", r#"{"type":"string"}"#),
        nested(40, r#"{"allOf":[{"type":"object"},"#, "]}", "{}"),
        nested(40, r#"{"properties":{"a":"#, "}}", "{}"),
        nested(50, r#"{"anyOf":[{"type":"null"},"#, "]}", "{}"),
        nested(9, r#"{"oneOf":[{"minimum":1},{"type":"string"},"#, "]}", "{}"),
    ] {
        if let Ok(value) = serde_json::from_str(&text) {
            survives(value);
        }
        let _ = Type::schema(&text);
    }
    let mut value = json!({});
    for _ in 0..1000 {
        let mut map = serde_json::Map::new();
        map.insert("items".into(), value);
        value = Value::Object(map);
    }
    assert!(Type::schema_value(value.clone()).is_err());
    // The value's own destructor is recursive; taken apart here, as its owner would have to.
    while let Some(inner) = value.as_object_mut().and_then(|m| m.shift_remove("items")) {
        value = inner;
    }
    assert!(Type::expr(&nested(100, "(", ")", "string")).is_err());
    assert!(Type::expr(&nested(100, r#"{"a":"#, "}", r#""string""#)).is_err());
    assert!(Type::expr(&format!("string{}", "[]".repeat(1000))).is_err());
}

#[test]
fn wide_types_stay_within_limits() {
    let names: Vec<String> = (0..5000).map(|i| format!("option number {i}")).collect();
    survives(json!({ "enum": names }));
    assert!(Type::choice(names.clone()).is_ok());
    let props: serde_json::Map<String, Value> =
        names.iter().take(1500).map(|n| (n.clone(), json!({"type": "string"}))).collect();
    survives(json!({ "type": "object", "properties": props.clone() }));
    survives(
        json!({ "type": "object", "properties": props.clone(), "required": names[..1500], "minProperties": 20 }),
    );
    survives(json!({ "type": "object", "properties": props, "minProperties": 700, "maxProperties": 800 }));
    let dependent: serde_json::Map<String, Value> =
        (0..40).map(|i| (format!("k{i}"), json!([format!("r{i}")]))).collect();
    survives(json!({ "type": "object", "dependentRequired": dependent }));
    let branches: Vec<Value> =
        (0..60).map(|i| json!({"properties": {"k": {"minimum": i}, "x": {"type": "string"}}})).collect();
    survives(json!({ "oneOf": branches.clone() }));
    survives(
        json!({ "allOf": branches.iter().map(|b| json!({"anyOf": [b, {"type": "string"}, {"required": ["z"]}]})).collect::<Vec<_>>() }),
    );
    let patterns: serde_json::Map<String, Value> =
        (0..20).map(|i| (format!("a{i}"), json!({"type": "string"}))).collect();
    survives(json!({ "type": "object", "patternProperties": patterns }));
}

#[test]
fn large_counts_are_cheap() {
    for schema in [
        json!({"type": "array", "items": {"type": "string"}, "minItems": 30_000, "maxItems": 4_000_000_000u64}),
        json!({"type": "string", "maxLength": 1_000_000}),
        json!({"type": "string", "minLength": u64::MAX}),
        json!({"type": "array", "maxItems": u64::MAX, "minItems": u64::MAX}),
        json!({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 100_000}),
        json!({"type": "string", "pattern": "^(a{1000}){1000}$"}),
        json!({"type": "string", "pattern": "^(([a-z]+)+)+$", "maxLength": 5000}),
        json!({"type": "string", "pattern": "(a|b)*a(a|b){300}"}),
        json!({"type": "string", "allOf": [{"pattern": "a.{50}b"}, {"pattern": "c.{50}d"}, {"pattern": "e.{50}f"}]}),
        json!({"type": "number", "multipleOf": 19_999}),
        json!({"type": "integer", "minimum": -1e300, "maximum": 1e300}),
    ] {
        survives(schema);
    }
    let _ = Type::text_max(usize::MAX).map(|ty| Matcher::new(&ty, &vocabulary()).map(|mut m| m.mask()));
    let _ = Type::regex("(a|aa)*{5}");
}

#[test]
fn recursion_without_end_is_an_error() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"anyOf": [{"$ref": "#"}, {"type": "string"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"}),
        json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
        json!({"type": "array", "minItems": 1, "items": {"$ref": "#"}}),
    ] {
        assert!(Type::schema_value(schema.clone()).is_err(), "{schema}");
    }
    // Two recursive definitions composed with each other.
    survives(json!({
        "allOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}],
        "$defs": {
            "one": {"type": "object", "properties": {"child": {"$ref": "#/$defs/one"}}},
            "two": {"type": "object", "properties": {"child": {"$ref": "#/$defs/two"}}},
        },
    }));
    survives(json!({
        "$defs": {"t": {"type": "object", "properties": {"c": {"$ref": "#/$defs/t"}, "v": {"type": "integer"}}}},
        "oneOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t", "required": ["v"]}],
    }));
}

#[test]
fn garbage_is_an_error() {
    let mut random = Random(7);
    let keywords = [
        "type",
        "properties",
        "items",
        "prefixItems",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "$ref",
        "enum",
        "const",
        "required",
        "pattern",
        "format",
        "minimum",
        "maxLength",
        "multipleOf",
        "patternProperties",
        "additionalProperties",
        "dependentRequired",
        "dependencies",
        "propertyNames",
        "minProperties",
        "$defs",
        "$id",
    ];
    fn garbage(random: &mut Random, keywords: &[&str], depth: usize) -> Value {
        match random.below(if depth == 0 { 7 } else { 11 }) {
            0 => json!(null),
            1 => json!(random.below(2) == 0),
            2 => json!(random.below(20) as i64 - 5),
            3 => json!(0.5 * random.below(9) as f64),
            4 => json!(["string", "object", "number", "array", "integer", "null"][random.below(6)]),
            5 => json!(["#", "#/$defs/a", "^a", "a|", "date", "[", "(?!a)b$"][random.below(7)]),
            6 => json!({}),
            7 => (0..random.below(4)).map(|_| garbage(random, keywords, depth - 1)).collect(),
            _ => {
                let mut map = serde_json::Map::new();
                for _ in 0..random.below(4) + 1 {
                    let key = keywords[random.below(keywords.len())];
                    map.insert(key.into(), garbage(random, keywords, depth - 1));
                }
                Value::Object(map)
            }
        }
    }
    for _ in 0..3000 {
        survives(garbage(&mut random, &keywords, 5));
    }
}
