//! Items that must differ: no array that has enough different items is refused, and none is begun that has not.

use super::budgets::generate;
use super::*;

/// Whether all items are different, in the eyes of JSON Schema.
fn differ(value: &Value) -> bool {
    let keys: Vec<_> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| super::super::unique::same_as(v.to_string().as_bytes()))
        .collect();
    (1..keys.len()).all(|i| !keys[..i].contains(&keys[i]))
}

#[test]
fn arrays_with_enough_different_items_are_taken() {
    let unique = |items: Value, min: u64| json!({"type": "array", "uniqueItems": true, "items": items, "minItems": min});
    let places = |prefix: Value, min: u64| json!({"type": "array", "uniqueItems": true, "prefixItems": prefix, "items": false, "minItems": min});
    let nested = |depth: usize, leaf: Value| {
        (0..depth)
            .fold(leaf, |inner, _| json!({"type": "array", "items": inner, "minItems": 1, "maxItems": 1}))
    };
    let pairs = |keys: Value, value: Value, min: u64, max: u64| json!({"type": "object", "propertyNames": {"enum": keys}, "additionalProperties": value, "minProperties": min, "maxProperties": max});
    for (schema, least) in [
        (unique(json!({"type": "number", "minimum": 0, "maximum": 1}), 3), Some(3)),
        (unique(json!({"type": "number", "minimum": 0, "maximum": 1}), 40), Some(40)),
        (unique(json!({"type": "number", "minimum": 0.25, "maximum": 0.75, "multipleOf": 0.25}), 3), Some(3)),
        (unique(json!({"type": "number", "minimum": 0.25, "maximum": 0.75, "multipleOf": 0.25}), 4), None),
        (unique(json!({"type": "integer", "minimum": 0, "maximum": 1}), 2), Some(2)),
        (unique(json!({"type": "integer", "minimum": 0, "maximum": 1}), 3), None),
        (unique(json!({"type": "integer", "minimum": -29, "maximum": 30}), 60), Some(60)),
        (unique(json!({"type": "integer", "minimum": -29, "maximum": 30}), 61), None),
        (unique(json!({"type": "number", "minimum": 5, "maximum": 5}), 2), None),
        (unique(json!({"type": "string", "pattern": "^[ab]{0,3}$"}), 15), Some(15)),
        (unique(json!({"type": "string", "pattern": "^[ab]{0,3}$"}), 16), None),
        (unique(json!({"type": "string", "maxLength": 1}), 40), Some(40)),
        (unique(json!({"type": ["boolean", "null"]}), 3), Some(3)),
        (unique(json!({"type": ["boolean", "null"]}), 4), None),
        (unique(json!({"enum": [1, 1.0, 2]}), 2), Some(2)),
        (unique(json!({"enum": [1, 1.0, 2]}), 3), None),
        (
            unique(
                json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2}, {"type": "number", "minimum": 0, "maximum": 2, "multipleOf": 1}]}),
                3,
            ),
            Some(3),
        ),
        (
            unique(
                json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2}, {"type": "number", "minimum": 0, "maximum": 2, "multipleOf": 1}]}),
                4,
            ),
            None,
        ),
        // A place that takes what another one needs moves on.
        (places(json!([{"enum": [1, 2, 3]}, {"const": 1}, {"const": 2}]), 3), Some(3)),
        (
            places(json!([{"enum": [1, 2, 3, 4]}, {"enum": [1, 2, 3]}, {"enum": [1, 2]}, {"const": 1}]), 4),
            Some(4),
        ),
        (places(json!([{"enum": [1, 2]}, {"enum": [1, 2]}, {"enum": [1, 2]}]), 3), None),
        // Deep within, in pairs, and in both.
        (unique(nested(12, json!({"type": "boolean"})), 2), Some(2)),
        (unique(nested(12, json!({"type": "boolean"})), 3), None),
        (unique(pairs(json!(["a", "b"]), json!({"enum": [0, 1]}), 2, 2), 4), Some(4)),
        (unique(pairs(json!(["a", "b"]), json!({"enum": [0, 1]}), 2, 2), 5), None),
        (unique(pairs(json!(["a", "b"]), json!({"enum": [0, 1]}), 0, 2), 9), Some(9)),
        (unique(pairs(json!(["a", "b"]), json!({"enum": [0, 1]}), 0, 2), 10), None),
        (
            unique(
                json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}}),
                9,
            ),
            Some(9),
        ),
        (
            unique(
                json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}}),
                10,
            ),
            None,
        ),
        (unique(unique(json!({"enum": [1, 2, 3]}), 3), 6), Some(6)),
        (unique(unique(json!({"enum": [1, 2, 3]}), 3), 7), None),
        (
            json!({"type": "array", "uniqueItems": true, "contains": {"const": 3}, "items": {"enum": [1, 2, 3]}, "minItems": 3}),
            Some(3),
        ),
        (
            json!({"type": "array", "uniqueItems": true, "contains": {"const": 3}, "minContains": 2, "items": {"enum": [1, 2, 3]}}),
            None,
        ),
    ] {
        match (Type::schema_value(schema.clone()), least) {
            (Ok(ty), Some(least)) => {
                for seed in 0..2 {
                    let needed = match generate(&ty, &vocabulary(), tokens().as_ref(), seed, 0) {
                        Ok(Err(needed)) => needed,
                        other => panic!("{schema}: {other:?}"),
                    };
                    let text =
                        generate(&ty, &vocabulary(), tokens().as_ref(), seed, needed + 2).unwrap().unwrap();
                    let value = ty.check(&text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
                    assert!(differ(&value) && value.as_array().unwrap().len() >= least, "{schema}: {text}");
                }
            }
            (Err(Error::Type { keyword, reason, .. }), None) => {
                assert_eq!(keyword, "uniqueItems", "{schema}: {reason}");
                assert!(reason.contains("fewer different items"), "{schema}: {reason}");
            }
            (Ok(_), None) => panic!("{schema} is taken"),
            (Err(e), _) => panic!("{schema}: {e}"),
        }
    }
}

/// What is easily seen of tokens is what a completion behind each of them says.
#[test]
fn masks_are_those_that_a_completion_behind_every_token_gives() {
    let unique = |items: Value| json!({"type": "array", "uniqueItems": true, "items": items, "maxItems": 4});
    let vocabulary = vocabulary();
    for schema in [
        unique(json!({"type": "string", "maxLength": 2})),
        unique(json!({"type": "string", "maxLength": 9})),
        unique(json!({"type": "string", "pattern": "^[ab\\n\\u0000]{0,2}$"})),
        unique(json!({"type": "string"})),
        json!({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 2}, "minItems": 3, "maxItems": 4}),
        json!({"type": "array", "uniqueItems": true, "items": {"type": "string", "pattern": "^[ab]{1,2}$"}, "minItems": 5, "maxItems": 6}),
        json!({"type": "array", "uniqueItems": true, "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 3, "maxItems": 4}),
        json!({"type": "array", "uniqueItems": true, "minItems": 3, "maxItems": 4, "prefixItems": [{"enum": ["a", "b"]}],
            "items": {"type": ["string", "null"], "pattern": "^[ab]?$"}}),
        unique(json!({"enum": ["a", "aa", "abc", "ab\u{1}", "ab\u{2}"]})),
        unique(json!({"type": "integer", "minimum": -12, "maximum": 12})),
        unique(json!({"type": "number", "minimum": 0, "maximum": 1})),
        unique(json!({"type": ["number", "string", "null"], "maxLength": 1})),
        unique(
            json!({"type": "object", "properties": {"id": {"enum": [1, 12]}, "name": {"type": "string", "maxLength": 1}}, "required": ["id"]}),
        ),
        unique(
            json!({"type": "object", "additionalProperties": {"enum": [1, 2]}, "maxProperties": 2, "propertyNames": {"maxLength": 2}}),
        ),
        unique(unique(json!({"type": "string", "pattern": "^[ab]?$"}))),
        json!({"type": "array", "uniqueItems": true, "minItems": 3, "items": false,
            "prefixItems": [{"enum": ["a", "aa", "b"]}, {"type": "string", "maxLength": 1}, {"enum": ["a", "b"]}]}),
        json!({"anyOf": [
            {"type": "array", "uniqueItems": true, "prefixItems": [{"enum": [1, 2]}, {"type": "string", "pattern": "^a*$"}, {"const": 1}], "minItems": 3, "items": false},
            {"type": "array", "uniqueItems": true, "prefixItems": [{"enum": [1, 2]}, {"type": "string", "maxLength": 1}, {"type": "null"}], "minItems": 3, "items": false}
        ]}),
        json!({"type": "array", "uniqueItems": true, "contains": {"const": "a"}, "items": {"type": "string", "maxLength": 1}, "minItems": 2, "maxItems": 3}),
    ] {
        let ty = Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{schema}: {e}"));
        for seed in 0..4 {
            let mut random = Random(seed ^ 0x5EED);
            let mut matcher = Matcher::new(&ty, &vocabulary).unwrap();
            let mut text = Vec::new();
            for _ in 0..40 {
                let (mask, slow) = (matcher.mask().unwrap(), matcher.slow_mask().unwrap());
                for id in 0..vocabulary.size() as u32 {
                    assert_eq!(
                        mask.allows(id),
                        slow.allows(id),
                        "{schema}: {:?} then {:?}",
                        String::from_utf8_lossy(&text),
                        String::from_utf8_lossy(tokens().bytes(id)),
                    );
                }
                let allowed: Vec<u32> = (3..vocabulary.size() as u32).filter(|&id| mask.allows(id)).collect();
                let few: Vec<u32> = allowed
                    .iter()
                    .copied()
                    .filter(|&id| tokens().bytes(id).iter().all(|b| b"ab12\",[]{}:\\.".contains(b)))
                    .collect();
                let from = if few.is_empty() || random.below(8) == 0 { &allowed } else { &few };
                if from.is_empty() {
                    break;
                }
                let id = from[random.below(from.len())];
                text.extend_from_slice(tokens().bytes(id));
                matcher.consume(id).unwrap();
            }
        }
    }
}
