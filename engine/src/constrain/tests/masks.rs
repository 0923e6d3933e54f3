//! For small finite types the masks are exactly what a search over all values says.

use super::*;
use crate::constrain::Steer;
use std::collections::BTreeSet;

/// Follows every path of the matcher and compares each mask with the texts that are left.
fn assert_exact(ty: &Type, texts: &BTreeSet<Vec<u8>>) {
    let (tokens, vocabulary) = (tokens(), vocabulary());
    let mut seen = BTreeSet::new();
    let mut todo: Vec<(Vec<u32>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    while let Some((path, text)) = todo.pop() {
        if !seen.insert(text.clone()) {
            continue;
        }
        let mut matcher = Matcher::replay(ty, &vocabulary, &path).expect("an allowed path");
        let left: Vec<&[u8]> = texts.iter().filter_map(|t| t.strip_prefix(text.as_slice())).collect();
        let shown = String::from_utf8_lossy(&text).into_owned();
        assert!(!left.is_empty(), "{shown:?} is no prefix of any value");
        let forced = matcher.forced().unwrap();
        let run: Vec<u8> = forced.iter().flat_map(|&id| tokens.bytes(id).to_vec()).collect();
        assert!(left.iter().all(|t| t.starts_with(&run)), "{shown:?}: forced {run:?}");
        assert_eq!(matcher.is_accepting().unwrap(), left.contains(&&b""[..]), "{shown:?}");
        assert_eq!(matcher.is_done().unwrap(), left == [&b""[..]], "{shown:?}");
        let mask = matcher.mask().unwrap();
        for id in 0..vocabulary.size() as u32 {
            let bytes = tokens.bytes(id);
            let eos = vocabulary.eos_ids().contains(&id);
            let fits = match () {
                _ if eos => left.contains(&&b""[..]),
                _ if tokens.is_control(id) || bytes.is_empty() => false,
                _ if !forced.is_empty() => id == forced[0],
                _ => left.iter().any(|t| t.starts_with(bytes)),
            };
            assert_eq!(mask.allows(id), fits, "{shown:?} then {id} {:?}", String::from_utf8_lossy(bytes));
            if fits && !eos {
                todo.push(([path.as_slice(), &[id]].concat(), [text.as_slice(), bytes].concat()));
            }
        }
    }
    for text in texts {
        assert!(seen.contains(text), "{:?} is never reached", String::from_utf8_lossy(text));
    }
}

fn exact(ty: Type, texts: &[&str]) {
    assert_exact(&ty, &texts.iter().map(|t| t.as_bytes().to_vec()).collect());
}

#[test]
fn masks_of_finite_schemas_are_exact() {
    let cases: &[(Value, &[&str])] = &[
        (
            json!({"enum": ["a", "aa", "abc", 12, 123, null, true]}),
            &["\"a\"", "\"aa\"", "\"abc\"", "12", "123", "null", "true"],
        ),
        (json!({"type": "integer", "minimum": 8, "maximum": 12}), &["8", "9", "10", "11", "12"]),
        (json!({"type": "boolean"}), &["true", "false"]),
        (json!({"type": ["boolean"], "nullable": true}), &["true", "false", "null"]),
        (
            json!({"type": "object", "properties": {"name": {"const": "a"}, "id": {"enum": [1, 12]}}, "required": ["id"]}),
            &[r#"{"name":"a","id":1}"#, r#"{"name":"a","id":12}"#, r#"{"id":1}"#, r#"{"id":12}"#],
        ),
        (json!({"type": "array", "items": {"const": 0}, "maxItems": 3}), &["[]", "[0]", "[0,0]", "[0,0,0]"]),
        (
            json!({"type": "array", "prefixItems": [{"const": "é"}, {"const": null}], "items": false}),
            &["[]", "[\"é\"]", "[\"é\",null]"],
        ),
        (json!({"type": "string", "pattern": "^(日本|12)$"}), &["\"日本\"", "\"12\""]),
        (
            json!({"type": "object", "patternProperties": {"^a{1,2}$": {"const": 1}}, "maxProperties": 1}),
            &["{}", "{\"a\":1}", "{\"aa\":1}"],
        ),
        (json!({"type": "string", "enum": ["a", "b", "c"], "not": {"const": "b"}}), &["\"a\"", "\"c\""]),
        (
            json!({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}}, "minProperties": 1, "maxProperties": 2}),
            &[
                r#"{"a":1}"#,
                r#"{"b":1}"#,
                r#"{"c":1}"#,
                r#"{"a":1,"b":1}"#,
                r#"{"a":1,"c":1}"#,
                r#"{"b":1,"c":1}"#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}}, "required": ["b"], "minProperties": 2}),
            &[r#"{"a":1,"b":1}"#, r#"{"b":1,"c":1}"#, r#"{"a":1,"b":1,"c":1}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"const": 1}}, "propertyNames": {"enum": ["a", "b"]}, "patternProperties": {"b": {"const": 2}}, "minProperties": 1}),
            &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#],
        ),
        (json!({"type": "string", "pattern": "^\\ud83d\\ude42$"}), &["\"🙂\""]),
        (json!({"type": "string", "pattern": "^\\0$"}), &["\"\\u0000\""]),
        (
            json!({"type": "string", "pattern": "^(a{,3}|[\\w-a]{2}|a{)$", "enum": ["a{,3}", "a-", "a{", "a"]}),
            &["\"a{,3}\"", "\"a-\"", "\"a{\""],
        ),
        (
            json!({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 3}, {"type": "integer", "minimum": 3, "maximum": 4}]}),
            &["1", "2", "4"],
        ),
        (
            json!({"type": "integer", "minimum": 0, "maximum": 12, "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
            &["2", "3", "4", "8", "9", "10"],
        ),
        (json!({"enum": [1, 1.5, 2], "oneOf": [{"type": "integer"}, {"type": "number"}]}), &["1.5"]),
        (json!({"type": "integer", "minimum": 5, "maximum": 9, "not": {"multipleOf": 2}}), &["5", "7", "9"]),
    ];
    for (schema, texts) in cases {
        exact(Type::schema_value(schema.clone()).unwrap(), texts);
    }
}

#[test]
fn items_that_must_differ_do() {
    let cases: &[(Value, &[&str])] = &[
        (
            json!({"type": "array", "items": {"enum": [1, 2, 12]}, "uniqueItems": true, "maxItems": 2}),
            &["[]", "[1]", "[2]", "[12]", "[1,2]", "[1,12]", "[2,1]", "[2,12]", "[12,1]", "[12,2]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true}),
            &["[]", "[1]", "[2]", "[1,2]", "[2,1]"],
        ),
        (
            json!({"type": "array", "items": {"enum": ["a", "aa"]}, "uniqueItems": true, "minItems": 2}),
            &[r#"["a","aa"]"#, r#"["aa","a"]"#],
        ),
        // The first item leaves one to the second.
        (
            json!({"type": "array", "prefixItems": [{"enum": [1, 2]}, {"const": 1}], "items": false, "uniqueItems": true, "minItems": 2}),
            &["[2,1]"],
        ),
        // Equal items are fine where the other branch takes them.
        (
            json!({"anyOf": [
                {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 2},
                {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 2}
            ]}),
            &["[1,2]", "[2,1]", "[1,1]"],
        ),
        // Equal whatever the order of properties.
        (
            json!({"type": "array", "uniqueItems": true, "minItems": 2, "items": {"anyOf": [
                {"type": "object", "properties": {"a": {"const": 1}, "id": {"const": 1}}, "required": ["a", "id"]},
                {"type": "object", "properties": {"id": {"const": 1}, "a": {"enum": [1, 2]}}, "required": ["id", "a"]}
            ]}}),
            &[
                r#"[{"a":1,"id":1},{"id":1,"a":2}]"#,
                r#"[{"id":1,"a":1},{"id":1,"a":2}]"#,
                r#"[{"id":1,"a":2},{"a":1,"id":1}]"#,
                r#"[{"id":1,"a":2},{"id":1,"a":1}]"#,
            ],
        ),
        (
            json!({"type": "array", "uniqueItems": true, "maxItems": 2, "minItems": 2, "items": {"type": "array", "items": {"const": 1}, "maxItems": 1}}),
            &["[[],[1]]", "[[1],[]]"],
        ),
    ];
    for (schema, texts) in cases {
        exact(Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{schema}: {e}")), texts);
    }
}

#[test]
fn what_must_be_contained_is() {
    let cases: &[(Value, &[&str])] = &[
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "maxItems": 2}),
            &["[2]", "[1,2]", "[2,1]", "[2,2]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "minContains": 0, "maxContains": 1, "maxItems": 2}),
            &["[]", "[1]", "[2]", "[1,1]", "[1,2]", "[2,1]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 2}, "minContains": 2, "maxItems": 3}),
            &["[2,2]", "[1,2,2]", "[2,1,2]", "[2,2,1]", "[2,2,2]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"const": 3}, "uniqueItems": true, "maxItems": 2}),
            &["[3]", "[1,3]", "[2,3]", "[3,1]", "[3,2]"],
        ),
        (
            json!({"type": "array", "prefixItems": [{"const": "a"}], "items": {"enum": [1, 2]}, "contains": {"const": 2}, "maxItems": 2}),
            &[r#"["a",2]"#],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]}),
            &["[1,2]", "[2,1]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "not": {"items": {"const": 1}}}),
            &["[2]", "[1,2]", "[2,1]", "[2,2]"],
        ),
        (
            json!({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "not": {"contains": {"const": 1}}}),
            &["[]", "[2]", "[2,2]"],
        ),
        (
            json!({"oneOf": [
                {"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 2},
                {"type": "array", "items": {"enum": [2, 3]}, "minItems": 1, "maxItems": 2}
            ]}),
            &["[1]", "[3]", "[1,1]", "[1,2]", "[2,1]", "[3,3]", "[3,2]", "[2,3]"],
        ),
    ];
    for (schema, texts) in cases {
        exact(Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{schema}: {e}")), texts);
    }
}

#[test]
fn what_is_not_evaluated_is_left_out() {
    let cases: &[(Value, &[&str])] = &[
        (
            json!({"type": "object", "properties": {"a": {"const": 1}}, "unevaluatedProperties": false, "anyOf": [
                {"properties": {"b": {"const": 1}}, "required": ["b"]}, {"required": ["a"]}
            ]}),
            &[r#"{"b":1}"#, r#"{"a":1,"b":1}"#, r#"{"a":1}"#],
        ),
        // A neighbour's properties are not evaluated here.
        (
            json!({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}, "unevaluatedProperties": false}]}),
            &["{}", r#"{"b":1}"#],
        ),
        (
            json!({"type": "object", "properties": {"k": {"enum": [1, 2]}}, "required": ["k"], "unevaluatedProperties": false,
                "if": {"properties": {"k": {"const": 1}}}, "then": {"properties": {"x": {"const": 1}}}, "else": {"properties": {"y": {"const": 1}}}}),
            &[r#"{"k":1}"#, r#"{"k":1,"x":1}"#, r#"{"k":2}"#, r#"{"k":2,"y":1}"#],
        ),
        (
            json!({"$ref": "#/$defs/base", "properties": {"b": {"const": 2}}, "unevaluatedProperties": false,
                "$defs": {"base": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}}),
            &[r#"{"a":1}"#, r#"{"a":1,"b":2}"#],
        ),
        (
            json!({"type": "object", "patternProperties": {"^a{1,2}$": {"const": 1}}, "unevaluatedProperties": false, "maxProperties": 1}),
            &["{}", r#"{"a":1}"#, r#"{"aa":1}"#],
        ),
        (json!({"type": "object", "unevaluatedProperties": false}), &["{}"]),
        // Two branches that hold at once evaluate what both say.
        (
            json!({"type": "object", "required": ["a", "b"], "unevaluatedProperties": false, "anyOf": [
                {"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}}
            ]}),
            &[r#"{"a":1,"b":1}"#],
        ),
        (
            json!({"type": "object", "unevaluatedProperties": false, "anyOf": [true,
                {"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}}, {"required": ["a"]}
            ]}),
            &["{}", r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":1}"#],
        ),
        (
            json!({"type": "object", "unevaluatedProperties": false, "$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"anyOf": [
                {"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {"const": 1}}, "required": ["b"]}
            ]}]}}}),
            &[r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":1}"#],
        ),
        // A condition evaluates too, if it holds.
        (
            json!({"type": "object", "unevaluatedProperties": false, "if": {"properties": {"a": {"const": 1}}, "required": ["a"]}}),
            &["{}", r#"{"a":1}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"const": 1}}, "propertyNames": {"enum": ["a", "b"]}, "unevaluatedProperties": {"const": 2}}),
            &["{}", r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#],
        ),
        (
            json!({"type": "array", "prefixItems": [{"const": 1}], "unevaluatedItems": false,
                "anyOf": [{"prefixItems": [true, {"const": 2}], "minItems": 2}, {"maxItems": 1}]}),
            &["[]", "[1]", "[1,2]"],
        ),
        (
            json!({"type": "array", "contains": {"enum": [1, 2]}, "unevaluatedItems": false, "maxItems": 1}),
            &["[1]", "[2]"],
        ),
        (json!({"type": "array", "unevaluatedItems": {"const": 0}, "maxItems": 2}), &["[]", "[0]", "[0,0]"]),
    ];
    for (schema, texts) in cases {
        let ty = Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{schema}: {e}"));
        for text in *texts {
            ty.check(text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
        }
        exact(ty, texts);
    }
}

#[test]
fn keys_are_never_repeated() {
    let ty =
        Type::schema_value(json!({"type": "object", "additionalProperties": {"type": "integer"}})).unwrap();
    let vocabulary = vocabulary();
    let after = |text: &str| Matcher::replay(&ty, &vocabulary, &tokens().encode(text).unwrap());
    let ids = |text: &str| tokens().encode(text).unwrap();
    for (text, token, allowed) in [
        (r#"{"a":1,"a"#, "\":", false),
        (r#"{"a":1,"a"#, "\"", false),
        (r#"{"a":1,"a"#, "a", true),
        (r#"{"a":1,"aa"#, "\":", true),
        (r#"{"name":1,"#, "\"name\"", false),
        (r#"{"name":1,"#, "\"id\":", true),
        (r#"{"id":1,"#, "\"id\":", false),
    ] {
        let mut matcher = after(text).unwrap();
        let id = ids(token)[0];
        assert_eq!(matcher.mask().unwrap().allows(id), allowed, "{text} then {token}");
        assert_eq!(matcher.consume(id).is_ok(), allowed, "{text} then {token}");
    }
    exact(
        Type::schema_value(
            json!({"additionalProperties": {"const": 1}, "propertyNames": {"enum": ["a", "b"]}}),
        )
        .unwrap(),
        &["{}", r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":1}"#],
    );
}

/// Where matchers are known to be loose: other spellings of a key, days that do not exist, bounds beyond 2^53.
#[test]
fn what_would_merely_look_valid_is_not_taken() {
    let keys = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}});
    let (day, time) = (json!({"format": "date"}), json!({"format": "date-time"}));
    let above =
        json!({"type": "integer", "minimum": 9007199254740993u64, "maximum": 18446744073709551615u64});
    let fraction = json!({"type": "number", "exclusiveMinimum": 0.1, "maximum": 0.3});
    for (schema, text, taken) in [
        (&keys, r#"{"a":1,"b":"x"}"#, true),
        (&keys, r#"{"\u0061":"x"}"#, false),
        (&keys, r#"{"a":1,"\u0061":"x"}"#, false),
        (&keys, r#"{"b":"x","b":"y"}"#, false),
        (&keys, r#"{"b":"x","\u0062":"y"}"#, false),
        (&keys, r#"{"a": 1}"#, false),
        (&day, r#""2024-02-29""#, true),
        (&day, r#""2023-02-29""#, false),
        (&time, r#""2024-02-29T23:59:59Z""#, true),
        (&time, r#""2024-02-29T23:59:60Z""#, false),
        (&above, "9007199254740993", true),
        (&above, "9007199254740992", false),
        (&above, "18446744073709551615", true),
        (&above, "18446744073709551616", false),
        (&fraction, "0.3", true),
        (&fraction, "0.30000000000001", false),
        (&fraction, "0.1", false),
        (&json!({"type": "integer"}), "1", true),
        (&json!({"type": "integer"}), "1.0", false),
        (&json!({"type": "number"}), "12345678901234567", true),
        (&json!({"type": "number"}), "123456789012345678", false),
    ] {
        let ty = Type::schema_value(schema.clone()).unwrap();
        let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
        let read = text.bytes().all(|b| matcher.consume(u32::from(b) + 3).is_ok());
        assert_eq!(read && matcher.is_accepting().unwrap(), taken, "{text} of {schema}");
    }
}

#[test]
fn masks_of_text_types_are_exact() {
    exact(Type::choice(["yes", "no", "now", ""]).unwrap(), &["yes", "no", "now", ""]);
    exact(Type::choice(["<|end|>"]).unwrap(), &["<|end|>"]);
    exact(Type::regex("a|aa|(12|é)?").unwrap(), &["a", "aa", "12", "é", ""]);
    exact(Type::text_max(0).unwrap(), &[""]);
}

#[test]
fn control_tokens_and_padding_are_never_part_of_a_value() {
    let vocabulary = vocabulary();
    for ty in [Type::text().unwrap(), Type::expr("string").unwrap(), Type::expr("unknown").unwrap()] {
        let mut matcher = Matcher::new(&ty, &vocabulary).unwrap();
        if !ty.is_text() {
            let quote = tokens().encode("\"").unwrap()[0];
            matcher.consume(quote).unwrap();
        }
        let mask = matcher.mask().unwrap();
        assert!(!mask.allows(0), "a control token");
        assert_eq!(mask.allows(EOS), ty.is_text());
        assert_eq!(mask.allows(END_OF_TURN), ty.is_text());
        for id in tokens().size()..mask.words.len() * 32 {
            assert!(!mask.allows(id as u32), "padding {id}");
        }
        // The name of a control token, written in bytes, is text like any other.
        let literal = tokens().encode("<|end|>").unwrap();
        assert_eq!(literal.len(), 1);
        assert!(mask.allows(literal[0]));
    }
}

#[test]
fn text_of_n_characters_counts_code_points() {
    let ty = Type::text_max(2).unwrap();
    let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
    for id in tokens().encode("é").unwrap() {
        matcher.consume(id).unwrap();
    }
    let two = tokens().encode("日本").unwrap()[0];
    assert!(!matcher.mask().unwrap().allows(two), "three characters");
    matcher.consume(tokens().encode("é").unwrap()[0]).unwrap();
    assert!(matcher.is_done().unwrap());
}

#[test]
fn a_refused_token_leaves_the_matcher_as_it_was() {
    let ty = Type::choice(["abc"]).unwrap();
    let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
    let id = |t: &str| tokens().encode(t).unwrap()[0];
    for bad in [id("1"), EOS, 0, 1_000_000, vocabulary().size() as u32 - 1] {
        assert!(matches!(matcher.consume(bad), Err(Error::InvalidArgument { .. })), "{bad}");
    }
    matcher.consume(id("a")).unwrap();
    assert!(matcher.consume(EOS).is_err());
    for t in ["b", "c"] {
        matcher.consume(id(t)).unwrap();
    }
    assert!(matcher.is_done().unwrap());
    assert!(matcher.consume(id("c")).is_err());
    matcher.consume(END_OF_TURN).unwrap();
    assert!(matcher.consume(EOS).is_err(), "nothing follows the end");
    assert!(matcher.mask().unwrap().words.iter().all(|w| *w == 0));
    assert!(matcher.forced().unwrap().is_empty());
}

#[test]
fn forced_runs_are_the_canonical_tokens() {
    let ty = Type::expr(r#"{"id": "1"}"#).unwrap();
    let mut matcher = Matcher::new(&ty, &vocabulary()).unwrap();
    let forced = matcher.forced().unwrap();
    let text: Vec<u8> = forced.iter().flat_map(|&id| tokens().bytes(id).to_vec()).collect();
    assert_eq!(String::from_utf8(text).unwrap(), r#"{"id":1}"#);
    assert_eq!(forced, tokens().encode(r#"{"id":1}"#).unwrap());
    for id in forced {
        matcher.consume(id).unwrap();
    }
    assert!(matcher.is_done().unwrap());
}

#[test]
fn replaying_tokens_restores_the_matcher() {
    let ty = Type::expr(r#"{"name": "string < 9", "n": "number"}"#).unwrap();
    let path = tokens().encode(r#"{"name":"abc","n":12.5"#).unwrap();
    let mut one = Matcher::new(&ty, &vocabulary()).unwrap();
    for n in 0..=path.len() {
        let mut other = Matcher::replay(&ty, &vocabulary(), &path[..n]).unwrap();
        assert_eq!(one.mask().unwrap(), other.mask().unwrap(), "after {n} tokens");
        if let Some(&id) = path.get(n) {
            one.consume(id).unwrap();
        }
    }
}

/// Where a place has the name of another, its mask is the other's.
#[test]
fn masks_that_are_kept_are_those_that_would_be_computed() {
    let (tokens, vocabulary) = (tokens(), vocabulary());
    for (i, (name, schema)) in super::walks::schemas().into_iter().enumerate() {
        let ty = Type::schema_value(schema).unwrap();
        let first = Matcher::new(&ty, &vocabulary).unwrap();
        for seed in 0..6 {
            let mut random = Random(i as u64 * 100 + seed);
            // All walks share the masks that are kept.
            let (mut named, mut plain) = (first.apart(), Matcher::new(&ty, &vocabulary).unwrap());
            let mut steer = Steer::new(&ty).unwrap();
            for _ in 0..60 {
                named.name_place(steer.place().unwrap());
                let mask = named.mask().unwrap();
                assert_eq!(mask, plain.mask().unwrap(), "{name}");
                let allowed: Vec<u32> = (0..vocabulary.size() as u32).filter(|&id| mask.allows(id)).collect();
                let id = allowed[random.below(allowed.len())];
                if vocabulary.eos_ids().contains(&id) {
                    break;
                }
                named.consume(id).unwrap();
                plain.consume(id).unwrap();
                steer.follow(id, tokens.bytes(id)).unwrap();
            }
        }
    }
}
