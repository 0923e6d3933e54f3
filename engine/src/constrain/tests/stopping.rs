//! Whoever does not wait any more ends the compilation of a type, and it is whole for the next one.

use super::*;
use crate::cancel::CancelToken;
use std::time::Duration;
use web_time::Instant;

/// Types that take long: by their words, their references, their compositions, their properties.
fn long_ones() -> Vec<Value> {
    let words: Vec<String> = (0..20_000).map(|i| format!("w{i}").repeat(2)).collect();
    let defs: serde_json::Map<String, Value> = (0..3_000)
        .map(|i| (format!("d{i}"), json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", i + 1)}}})))
        .chain([("d3000".to_string(), json!({"type": "null"}))])
        .collect();
    let props: serde_json::Map<String, Value> =
        (0..1_500).map(|i| (format!("p{i}"), json!({"type": "string", "maxLength": i}))).collect();
    let branch = |i: usize| json!({"properties": {"k": {"minimum": i}, "x": {"type": "string"}}});
    vec![
        json!({ "enum": words }),
        json!({"$ref": "#/$defs/d0", "$defs": defs}),
        json!({"type": "object", "properties": props, "minProperties": 20}),
        json!({"oneOf": (0..60).map(branch).collect::<Vec<_>>()}),
    ]
}

#[test]
fn a_cancelled_compilation_ends() {
    let (gone, late) = (CancelToken::new(), Instant::now().checked_sub(Duration::from_secs(1)));
    gone.cancel();
    for schema in long_ones() {
        let source = TypeSource::Schema(schema);
        let of = |cancel: &CancelToken, deadline| Type::from_source_within(source.clone(), cancel, deadline);
        let compiled = of(&gone, None).and_then(|ty| {
            let e = under(&gone, None, || ty.shortest().map(|_| ()));
            e.map(|()| ty)
        });
        assert_eq!(compiled.err(), Some(Error::Cancelled));
        if late.is_some() {
            let compiled = of(&CancelToken::new(), late)
                .and_then(|ty| under(&CancelToken::new(), late, || ty.shortest().map(|_| ())).map(|()| ty));
            assert_eq!(compiled.err(), Some(Error::Timeout));
        }
    }
    // What was given up is made anew for the next one.
    let words: Vec<String> = (0..200).map(|i| format!("w{i}")).collect();
    let ty = Type::schema_value(json!({ "enum": words })).unwrap();
    let given_up = under(&gone, None, || ty.shortest().map(|_| ()));
    assert_eq!(given_up, Err(Error::Cancelled));
    assert!(ty.shortest().is_ok());
}
