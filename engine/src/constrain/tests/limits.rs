//! What is too large is refused before the first token, with place, reason and limit; what is merely wide works.

use super::walks::{walk, Walk};
use super::*;
use crate::constrain::Steer;

/// 40 definitions, each a pair of the next.
fn pairs(leaf: Value) -> Value {
    let mut defs = serde_json::Map::new();
    for i in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        let pair = json!({"type": "array", "prefixItems": [next, next], "items": false, "minItems": 2});
        defs.insert(format!("d{i}"), pair);
    }
    defs.insert("d40".into(), leaf);
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// 9 definitions, each ten times the next for one and the same value.
fn tenfold(keyword: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for i in 0..9 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        defs.insert(format!("d{i}"), json!({ keyword: vec![next; 10] }));
    }
    defs.insert("d9".into(), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn types_without_a_value_of_moderate_size_are_refused() {
    let ones = |n: u64| json!({"type": "array", "minItems": n, "items": {"const": 1}});
    let constants: serde_json::Map<String, Value> =
        (0..5).map(|i| (format!("k{i}"), json!({"const": format!("{i}").repeat(10_000)}))).collect();
    for (schema, at, keyword, reason) in [
        (ones(100_000), "", "minItems", "at most 20000"),
        (
            json!({"properties": {"a": {"items": ones(100_000)}}}),
            "/properties/a/items",
            "minItems",
            "at most 20000",
        ),
        (json!({"anyOf": [{"type": "null"}, ones(100_000)]}), "/anyOf/1", "minItems", "at most 20000"),
        (
            json!({"type": "array", "minItems": 300, "items": {"type": "array", "minItems": 300, "maxItems": 300, "items": {"const": 1}}}),
            "",
            "minItems",
            "at most 20000",
        ),
        (
            json!({"type": "array", "minItems": u64::MAX, "items": {"type": "string"}}),
            "",
            "minItems",
            "1048576 bytes",
        ),
        (pairs(json!({"const": 1})), "/$defs/d28", "minItems", "at most 20000"),
        (pairs(json!({"type": "string"})), "/$defs/d22", "minItems", "1048576 bytes"),
        (tenfold("allOf"), "/$defs/d4", "$ref", "multiply out"),
        (tenfold("anyOf"), "/$defs/d4", "$ref", "multiply out"),
        (json!({"type": "string", "minLength": 5_000_000}), "", "schema", "1048576 bytes"),
        (
            json!({"properties": {"a": {"required": ["b"], "properties": {"b": {"minLength": 5_000_000}}}}}),
            "/properties/a",
            "required, minProperties",
            "1048576 bytes",
        ),
        (
            json!({"properties": {"a": {"enum": ["x".repeat(1 << 20), "b"]}}}),
            "/properties/a",
            "enum",
            "at most 16384",
        ),
        (json!({"const": {"a": ["x".repeat(20_000)]}}), "", "const", "at most 16384"),
        (json!({"properties": {"x".repeat(20_000): {}}}), "", "properties", "at most 16384"),
        (json!({"required": ["x".repeat(20_000)]}), "", "required", "at most 16384"),
        (json!({"items": {"properties": constants}}), "/items", "schema", "40000 bytes"),
        (json!({"items": {"pattern": "^((a{0,100}){0,100}){0,100}$"}}), "/items", "pattern", "too large"),
        (json!({"items": {"pattern": "^(\\p{L}{0,60}){0,60}$"}}), "/items", "pattern", "too large"),
        (
            json!({"allOf": [{"multipleOf": 19997}, {"multipleOf": 19991}, {"multipleOf": 19993}]}),
            "/allOf/0",
            "minimum, maximum, multipleOf",
            "units",
        ),
    ] {
        match Type::schema_value(schema.clone()) {
            Err(Error::Type { at: found, keyword: key, reason: why }) => {
                assert_eq!((found.as_str(), key.as_str()), (at, keyword), "{why}");
                assert!(why.contains(reason), "{why}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{:.200} is taken", schema.to_string()),
        }
    }
    let long = Type::choice(["x".repeat(20_000)]).unwrap_err().to_string();
    assert!(long.contains("at most 16384"), "{long}");
}

#[test]
fn large_but_possible_types_are_taken() {
    for schema in [
        json!({"type": "array", "minItems": 5000, "items": {"const": 1}}),
        json!({"type": "array", "minItems": 50_000, "items": {"type": "string"}}),
        json!({"const": "x".repeat(16_000)}),
        json!({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 100_000}),
        json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"kind": {"const": "t"}, "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["kind", "next"]}}}),
    ] {
        let ty =
            Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{:.200}: {e}", schema.to_string()));
        let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
        matcher.forced().unwrap();
        matcher.mask().unwrap();
    }
}

#[test]
fn thousands_of_words_have_a_way_to_their_end() {
    for words in
        [(0..20_000).map(|i| format!("s{i}").repeat(3)).collect::<Vec<_>>(), vec!["x".repeat(16_000)]]
    {
        let ty = Type::schema_value(json!({ "enum": words })).unwrap();
        let matcher = Matcher::new(&ty, &vocabulary()).unwrap();
        let needed = Steer::new(&ty).unwrap().needed(&matcher, 0).unwrap();
        assert!((1..=16_002).contains(&needed), "{needed}");
    }
}

#[test]
fn objects_of_a_thousand_optional_properties_work() {
    let names: Vec<String> = (0..1000).map(|i| format!("p{i}")).collect();
    let props: serde_json::Map<String, Value> =
        names.iter().map(|n| (n.clone(), json!({"enum": [1, 12]}))).collect();
    for bounds in
        [json!({}), json!({"minProperties": 2}), json!({"maxProperties": 3}), json!({"required": ["p750"]})]
    {
        let mut schema = json!({"type": "object", "properties": props});
        schema.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        let ty = Type::schema_value(schema).unwrap();
        for seed in 0..2 {
            if let Walk::Value(text) = walk(&ty, &vocabulary(), tokens().as_ref(), seed, 120).unwrap() {
                ty.check(&text).unwrap_or_else(|e| panic!("{bounds}: {text}: {e}"));
            }
        }
        // Any later property may follow, no earlier one.
        let begun = tokens().encode(r#"{"p499":1,"p5"#).unwrap();
        let mut matcher = Matcher::replay(&ty, &vocabulary(), &begun).unwrap();
        let mask = matcher.mask().unwrap();
        for (text, allowed) in [("0", true), ("\"", false)] {
            assert_eq!(mask.allows(tokens().encode(text).unwrap()[0]), allowed, "{bounds}: {text}");
        }
    }
}

#[test]
fn the_root_has_a_name_in_messages() {
    let message = |schema: Value| Type::schema_value(schema).unwrap_err().to_string();
    assert_eq!(
        message(json!({"enum": 1})),
        "type error at the root: enum: the value must be an array of values"
    );
    assert_eq!(
        message(json!({"items": {"enum": 1}})),
        "type error at /items: enum: the value must be an array of values"
    );
}
