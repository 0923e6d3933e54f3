//! References that multiply out: the final validation ends, and finds what it found before.

use super::*;

/// Definitions that each ask `keyword` of the next one, twice, for a property `a`.
fn doubling(levels: usize, keyword: &str, prefix: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for i in 0..levels {
        let next = json!({"$ref": format!("{prefix}{}", i + 1)});
        defs.insert(
            format!("d{i}"),
            json!({"type": "object", "required": ["a"], "properties": {"a": {keyword: [next.clone(), next]}}}),
        );
    }
    defs.insert(format!("d{levels}"), json!({"type": "integer", "minimum": 3}));
    Value::Object(defs)
}

fn nested(levels: usize, inner: &str) -> String {
    format!("{}{inner}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

fn reason(result: Result<Value>) -> String {
    result.map_or_else(|e| e.to_string(), |v| v.to_string())
}

#[test]
fn doubled_references_are_validated_once() {
    for (prefix, place) in [("#/$defs/d", "$defs"), ("#/definitions/d", "definitions"), ("#/x/y/d", "x")] {
        for keyword in ["allOf", "anyOf"] {
            let defs = doubling(40, keyword, prefix);
            let defs = if place == "x" { json!({ "y": defs }) } else { defs };
            let ty = Type::schema_value(json!({"$ref": format!("{prefix}0"), place: defs})).expect(place);
            assert!(ty.check(&nested(40, "3")).is_ok());
            let refused = reason(ty.check(&nested(40, "2")));
            if keyword == "allOf" {
                assert!(refused.contains(&"/a".repeat(40)) && refused.contains("minimum"), "{refused}");
            }
            assert!(ty.check(&nested(39, "3")).is_err());
            assert!(ty.check(&nested(41, "3")).is_err());
        }
    }
    // Recursive ones, with and without what was not evaluated.
    for rest in [json!({}), json!({"unevaluatedProperties": false})] {
        let mut schema = json!({
            "type": "object",
            "properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "b": {"type": "integer"}},
        });
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let ty = Type::schema_value(schema).unwrap();
        assert!(ty.check(&nested(60, r#"{"b":1}"#)).is_ok());
        assert!(ty.check(&nested(60, r#"{"b":"no"}"#)).is_err());
    }
}

#[test]
fn parts_say_what_the_whole_says() {
    let ty = Type::schema_value(json!({
        "$ref": "#/$defs/node",
        "description": "beside a reference",
        "maxProperties": 3,
        "$defs": {
            "node": {
                "$anchor": "n",
                "type": "object",
                "properties": {
                    "name": {"$ref": "#/$defs/name"},
                    "left": {"$ref": "#n"},
                    "right": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
                    // Never applied, and never read: an object has no items.
                    "odd": {"type": "object", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["name"],
                "additionalProperties": false,
            },
            "name": {"type": "string", "pattern": "^[a-z]{1,3}$", "enum": ["a", "b", {"$ref": "#/$defs/node"}]},
            "unused": {"$ref": "#/$defs/name"},
        },
    }))
    .unwrap();
    for good in [
        r#"{"name":"a"}"#,
        r#"{"name":"a","left":{"name":"b","right":null}}"#,
        r#"{"name":"a","right":{"name":"b","odd":{}}}"#,
    ] {
        assert!(ty.check(good).is_ok(), "{good}: {}", reason(ty.check(good)));
    }
    for (bad, at) in [
        (r#"{"name":"c"}"#, "/name"),
        (r#"{"name":"a","left":{"name":"b","left":{}}}"#, "/left/left"),
        (r#"{"name":"a","left":{"name":"b","more":1}}"#, "/left"),
        (r#"{"name":"a","right":{"name":"b","left":null}}"#, "/right"),
        (r#"{"name":"a","odd":[]}"#, "/odd"),
        (r#"{"name":"a","left":{"name":"a"},"right":null,"odd":{}}"#, "\"\""),
    ] {
        let refused = reason(ty.check(bad));
        assert!(refused.contains(at), "{bad}: {refused}");
    }
}

#[test]
fn what_is_no_schema_is_not_followed() {
    for schema in [
        json!({"properties": {"a": {"$ref": "#/properties/c/const"}, "b": {"$ref": "#"}, "c": {"const": {"type": "string"}}}}),
        json!({"properties": {"a": {"$ref": "#/$defs"}, "b": {"$ref": "#"}}, "$defs": {"x": {"type": "string"}}}),
    ] {
        let e = Type::schema_value(schema).unwrap_err().to_string();
        assert!(e.contains("no schema here"), "{e}");
    }
}

#[test]
fn long_chains_end() {
    let chain = |n: usize| -> Value {
        let defs: serde_json::Map<String, Value> = (0..n)
            .map(|i| (format!("c{i}"), json!({"allOf": [{"$ref": format!("#/$defs/c{}", (i + 1) % n)}]})))
            .collect();
        json!(defs)
    };
    let mut defs = chain(900);
    defs["c899"] = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/c0"}}});
    let ty = Type::schema_value(json!({"$ref": "#/$defs/c0", "$defs": defs})).unwrap();
    assert!(ty.check("{}").is_ok());
    let e = reason(ty.check(&nested(100, "{}")));
    assert!(e.contains("one inside the other"), "{e}");
}
