//! Numbers come out as the type says them, or the type is refused.

use super::walks::{walk, Walk};
use super::*;

fn only_value(ty: &Type) -> String {
    let mut matcher = Matcher::new(ty, &vocabulary()).unwrap();
    let ids = matcher.forced().unwrap();
    for &id in &ids {
        matcher.consume(id).unwrap();
    }
    assert!(matcher.is_done().unwrap());
    String::from_utf8(ids.iter().flat_map(|&id| tokens().bytes(id).to_vec()).collect()).unwrap()
}

#[test]
fn constants_are_written_exactly() {
    for (text, want) in [
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9007199254740993", "9007199254740993"),
        ("1e-300", "1e-300"),
        ("1.5e-7", "0.00000015"),
        ("0.1", "0.1"),
        ("1e18", "1000000000000000000"),
        ("-0.0", "0"),
    ] {
        for ty in [Type::schema(&format!("{{\"const\":{text}}}")), Type::expr(text)] {
            let ty = ty.unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(only_value(&ty), want, "{text}");
            ty.check(want).unwrap_or_else(|e| panic!("{want}: {e}"));
        }
    }
}

#[test]
fn numbers_that_would_be_rounded_are_refused() {
    for (text, at, keyword) in [
        (r#"{"const":18446744073709551617}"#, "", "const"),
        (r#"{"enum":[1,100000000000000000001]}"#, "", "enum"),
        (r#"{"const":123456789012345678901234567890}"#, "", "const"),
        (r#"{"const":1e-400}"#, "", "const"),
        (r#"{"const":1e100}"#, "", "const"),
        (r#"{"const":-9223372036854775809}"#, "", "const"),
        (r#"{"const":0.1000000000000000055511151231257827}"#, "", "const"),
        (
            r#"{"properties":{"a/b":{"anyOf":[{"type":"null"},{"const":{"x":[1e-400]}}]}}}"#,
            "/properties/a~1b/anyOf/1/const",
            "x",
        ),
        (r#"{"items":{"minimum":18446744073709551617}}"#, "/items", "minimum"),
        (r#"{"multipleOf":0.1000000000000000055511151231257827}"#, "", "multipleOf"),
        (r#"{"title":"1e-400 \\\" 1e-400","const":1e-400}"#, "", "const"),
    ] {
        match Type::schema(text) {
            Err(Error::Type { at: found, keyword: key, reason }) => {
                assert_eq!((found.as_str(), key.as_str()), (at, keyword), "{text}: {reason}");
                assert!(reason.contains("rounded"), "{text}: {reason}");
            }
            Err(other) => panic!("{text}: {other}"),
            Ok(_) => panic!("{text} is taken"),
        }
    }
    // A value that is parsed already gives away its size only.
    for value in
        [json!({"const": 1e20}), json!({"enum": [[1, -1e19]]}), json!({"minimum": 18446744073709552000.0})]
    {
        let e = Type::schema_value(value.clone()).unwrap_err().to_string();
        assert!(e.contains("may have been rounded"), "{value}: {e}");
    }
    for (expr, at) in [("18446744073709551617", "character 1"), ("number < 1e-400", "character 10")] {
        match Type::expr(expr) {
            Err(Error::Type { at: found, reason, .. }) => {
                assert_eq!(found, at, "{reason}");
                assert!(reason.contains("rounded"), "{expr}: {reason}");
            }
            other => panic!("{expr}: {other:?}"),
        }
    }
    assert!(Type::schema(r#"{"type":"number","minimum":-1e300,"maximum":1e300}"#).is_ok());
    for far in [r#"{"type":"number","maximum":-1e300}"#, r#"{"type":"number","minimum":1e300}"#] {
        let e = Type::schema(far).unwrap_err().to_string();
        assert!(e.contains("more than 20 digits are never generated"), "{far}: {e}");
    }
}

/// An alternative that is never generated leaves the others; where it is the only one, it is named.
#[test]
fn alternatives_beyond_the_digits_are_left_out() {
    let far = json!({"type": "number", "minimum": 1e30});
    let fine = json!({"type": "integer", "multipleOf": 30_001});
    for (schema, value, at) in [
        (json!({"anyOf": [far, {"type": "string", "maxLength": 1}]}), r#""a""#, "/anyOf/0"),
        (json!({"oneOf": [{"type": "null"}, far]}), "null", "/oneOf/1"),
        (json!({"type": ["number", "boolean"], "minimum": 1e30}), "true", "#"),
        (json!({"anyOf": [fine, {"const": 7}]}), "7", "/anyOf/0"),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"enum": [1]}, far]}}}),
            r#"{"a":1}"#,
            "/properties/a/anyOf/1",
        ),
    ] {
        let ty = Type::schema_value(schema.clone()).unwrap_or_else(|e| panic!("{schema}: {e}"));
        let found = ty.warnings().join("; ");
        assert!(found.starts_with(at) && found.contains("this alternative is left out"), "{schema}: {found}");
        let begun = tokens().encode(value).unwrap();
        assert!(Matcher::replay(&ty, &vocabulary(), &begun).is_ok(), "{schema}");
        // It is valid all the same.
        if at == "/anyOf/0" && value != "7" {
            assert!(ty.check("1e31").is_ok());
        }
    }
    for (schema, at) in [
        (json!({"anyOf": [far, {"type": "string", "minLength": 2, "maxLength": 1}]}), "/anyOf/0"),
        (json!({"type": "object", "properties": {"a": far, "b": {"type": "null"}}}), "/properties/a"),
        (json!({"anyOf": [{"type": "array", "minItems": 1, "items": far}]}), "/anyOf/0/items"),
        (json!({"allOf": [{"type": "number"}, {"minimum": 1e30}]}), "/allOf/1"),
    ] {
        match Type::schema_value(schema.clone()) {
            Err(Error::Type { at: found, keyword, .. }) => {
                assert_eq!(
                    (found.as_str(), keyword.as_str()),
                    (at, "minimum, maximum, multipleOf"),
                    "{schema}"
                );
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
}

#[test]
fn multiples_are_validated_in_decimals() {
    for (schema, yes, no) in [
        (
            json!({"type": "number", "multipleOf": 0.03, "minimum": 1}),
            &["1.02", "3.00", "300236302390.38"][..],
            &["1", "1.01"][..],
        ),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            &["0.3", "0.7", "1.1", "-0.3", "123456789012.3"],
            &["0.35"],
        ),
        (json!({"type": "number", "multipleOf": 1e-8}), &["0.00000007", "1.00000001"], &["0.000000005"]),
        (json!({"multipleOf": 7}), &["7", "7.0", "700000000000000007"], &["8"]),
    ] {
        let ty = Type::schema_value(schema.clone()).unwrap();
        for text in yes {
            ty.check(text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
        }
        for text in no {
            let e = ty.check(text).unwrap_err();
            assert!(matches!(e, Error::InvalidArgument { .. }), "{schema}: {text}: {e}");
        }
    }
}

/// Whatever digits are chosen, the final validation agrees.
#[test]
fn masks_and_final_validation_agree_on_numbers() {
    for schema in [
        json!({"type": "number", "multipleOf": 0.03, "minimum": 1}),
        json!({"type": "number", "multipleOf": 0.0007}),
        json!({"type": "number", "exclusiveMinimum": 9.5}),
        json!({"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.3}),
        json!({"type": "number", "maximum": 18446744073709551615u64, "minimum": 9007199254740993i64}),
        json!({"type": "integer", "multipleOf": 3, "minimum": 100000000000000000i64}),
        json!({"allOf": [{"type": "number", "multipleOf": 0.02}, {"multipleOf": 0.03}]}),
        json!({"type": "number", "not": {"const": 1.5}}),
    ] {
        let ty = Type::schema_value(schema.clone()).unwrap();
        for seed in 0..60 {
            if let Walk::Value(text) = walk(&ty, &vocabulary(), tokens().as_ref(), seed, 400).unwrap() {
                ty.check(&text).unwrap_or_else(|e| panic!("{schema}: {text}: {e}"));
            }
        }
    }
}
