//! What cannot be enforced is refused with place, keyword and reason; what means nothing is a warning.

use super::*;

fn error(schema: &Value) -> (String, String, String) {
    match Type::schema_value(schema.clone()) {
        Err(Error::Type { at, keyword, reason }) => (at, keyword, reason),
        Err(other) => panic!("{schema}: {other}"),
        Ok(_) => panic!("{schema} is taken"),
    }
}

#[test]
fn refused_schemas_name_place_keyword_and_reason() {
    for (schema, at, keyword, reason) in [
        (json!({"type": "strin"}), "", "type", "among"),
        (json!({"type": []}), "", "type", "among"),
        (json!({"properties": {"a/b": {"minLength": -1}}}), "/properties/a~1b", "minLength", "non-negative"),
        (json!({"properties": {"a": {"minLength": "1"}}}), "/properties/a", "minLength", "non-negative"),
        (json!({"items": {"pattern": "(a"}}), "/items", "pattern", "character 1"),
        (json!({"pattern": "\\bfoo"}), "", "pattern", "boundary"),
        (json!({"pattern": "a{2}{3}"}), "", "pattern", "nothing to repeat"),
        (json!({"pattern": "(a|a)*{1000}"}), "", "pattern", "nothing to repeat"),
        (json!({"patternProperties": {"a(": {}}}), "/patternProperties", "a(", "not closed"),
        (
            json!({"properties": {"a": {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 3}}}),
            "/properties/a",
            "uniqueItems",
            "fewer different items",
        ),
        (json!({"type": "array", "not": {"uniqueItems": true}}), "", "not", "equal items"),
        (
            json!({"items": {"type": "array", "contains": {"const": 1}, "minContains": 20, "minItems": 5000}}),
            "/items",
            "contains",
            "counted",
        ),
        (json!({"type": "array", "contains": false}), "", "contains", "no finite value"),
        (
            json!({"allOf": [{"properties": {"a": {}}}, {"required": ["a"], "unevaluatedProperties": false}], "type": "object"}),
            "",
            "schema",
            "without allOf or without type",
        ),
        (
            json!({"type": "object", "required": ["a", "b", "c"], "unevaluatedProperties": false, "anyOf": [
                {"properties": {"a": {}}}, {"properties": {"b": {}}}, {"properties": {"c": {}}}, {"properties": {"d": {}}},
                {"properties": {"e": {}}}, {"properties": {"f": {}}}
            ]}),
            "",
            "unevaluatedProperties",
            "not supported",
        ),
        (json!({"$dynamicRef": "#x"}), "", "$dynamicRef", "dynamic"),
        (json!({"format": "regex"}), "", "format", "regular expressions"),
        (json!({"$ref": "#/$defs/none"}), "", "$ref", "not inside"),
        (json!({"$ref": "https://example.com/other"}), "", "$ref", "not inside"),
        (json!({"$ref": "#"}), "", "$ref", "refers to itself"),
        (
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            "/$defs/a",
            "$ref",
            "refers to itself",
        ),
        (json!({"multipleOf": 0}), "", "multipleOf", "greater than zero"),
        (json!({"multipleOf": 1e-12}), "", "minimum, maximum, multipleOf", "decimals"),
        (json!({"minimum": 1e30}), "", "minimum, maximum, multipleOf", "digits"),
        (json!({"enum": 1}), "", "enum", "array"),
        (json!({"allOf": []}), "", "allOf", "at least one"),
        (json!({"required": "a"}), "", "required", "array of names"),
        (json!({"properties": []}), "", "properties", "object of schemas"),
        (json!({"properties": {"a": 1}}), "/properties/a", "schema", "object or a boolean"),
        (json!(false), "", "schema", "no finite value"),
        (
            json!({"type": "string", "minLength": 3, "maxLength": 2}),
            "",
            "schema",
            "without minLength or without maxLength one would",
        ),
        (
            json!({"type": "string", "pattern": "^a$", "minLength": 2}),
            "",
            "schema",
            "without pattern or without minLength one would",
        ),
        (
            json!({"$defs": {"a/b": {"type": "array", "minItems": 1, "items": {"enum": [1, 2], "minimum": 3}}},
                   "type": "object", "properties": {"x": {"type": "string"}, "y": {"allOf": [{"$ref": "#/$defs/a~1b"}]}}, "required": ["x", "y"]}),
            "/$defs/a~1b/items",
            "schema",
            "without enum or without minimum",
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": false}),
            "",
            "schema",
            "without required or without additionalProperties",
        ),
        (
            json!({"$schema": "draft-04", "properties": {"c": {"exclusiveMinimum": true}}}),
            "/properties/c",
            "schema",
            "minimum",
        ),
        (
            json!({"type": "object", "properties": {"a": false}, "required": ["a"]}),
            "/properties/a",
            "schema",
            "no finite value",
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
            "/properties/a",
            "$ref",
            "no finite value",
        ),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "integer", "multipleOf": 30_001}]}),
            "/oneOf/1",
            "minimum, maximum, multipleOf",
            "steps have at most",
        ),
    ] {
        let (found_at, found_keyword, found_reason) = error(&schema);
        assert_eq!((found_at.as_str(), found_keyword.as_str()), (at, keyword), "{schema}: {found_reason}");
        assert!(found_reason.contains(reason), "{schema}: {found_reason}");
    }
}

#[test]
fn unknown_keywords_and_formats_are_warnings() {
    let schema = json!({
        "title": "t", "x-order": 1, "type": "object",
        "properties": {"a": {"type": "string", "format": "color", "x-nullable": true}},
    });
    let ty = Type::schema_value(schema).unwrap();
    assert_eq!(
        ty.warnings(),
        [
            "#: unknown keyword \"x-order\"",
            "/properties/a: unknown format \"color\"",
            "/properties/a: unknown keyword \"x-nullable\""
        ],
    );
    assert!(Type::schema_value(json!({"title": "t", "description": "d", "default": 1}))
        .unwrap()
        .warnings()
        .is_empty());
}

#[test]
fn malformed_json_is_located() {
    for (text, character) in [("{\"type\": }", 10), ("{\"a\":1,\"a\":2}", 10), ("", 1)] {
        let Err(Error::Type { at, keyword, .. }) = Type::schema(text) else { panic!("{text} is taken") };
        assert_eq!((at, keyword), (format!("character {character}"), "JSON".to_string()), "{text}");
    }
}

#[test]
fn finished_texts_are_checked_by_themselves() {
    let ty = Type::schema(
        r#"{"type": "object", "properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]}"#,
    )
    .unwrap();
    assert_eq!(ty.check(r#"{"a":"2024-02-29"}"#).unwrap(), json!({"a": "2024-02-29"}));
    for text in [
        r#"{"a":"2023-02-29"}"#,
        r#"{}"#,
        r#"{"a":1}"#,
        r#"{"a":"2024-02-29""#,
        r#"{"a":"2024-02-29","a":"2024-02-28"}"#,
        "",
    ] {
        assert!(matches!(ty.check(text), Err(Error::InvalidArgument { .. })), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    assert!(Type::expr("unknown").unwrap().check(&deep).is_err());
    assert!(Type::text_max(2).unwrap().check("日本語").is_err());
    assert!(Type::regex("a+").unwrap().check("aab").is_err());
    assert!(Type::choice(["a"]).unwrap().check("b").is_err());
}

#[test]
fn properties_come_in_declared_order_and_objects_are_closed() {
    let ty = Type::schema_value(json!({
        "properties": {"b": {"const": 1}, "a": {"const": 2}}, "required": ["a", "b"],
    }))
    .unwrap();
    let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
    let text: Vec<u8> =
        matcher.forced().unwrap().iter().flat_map(|&id| tokens().bytes(id).to_vec()).collect();
    assert_eq!(String::from_utf8(text).unwrap(), r#"{"b":1,"a":2}"#);
}
