//! Random walks: whatever a model prefers, what comes out is valid.

use super::*;

/// Tokens after which a walk that is still going counts as truncated.
const BUDGET: usize = 400;

pub(crate) enum Walk {
    Value(String),
    Truncated,
}

/// A walk over the allowed tokens. Ends are preferred, so that most walks come to one.
pub(crate) fn walk(
    ty: &Type,
    vocabulary: &Vocabulary,
    tokens: &dyn Tokens,
    seed: u64,
    budget: usize,
) -> Result<Walk> {
    let mut random = Random(seed ^ 0x9E37_79B9_7F4A_7C15);
    let mut matcher = Matcher::new(ty, vocabulary)?;
    let mut bytes: Vec<u8> = Vec::new();
    for step in 0..budget {
        for id in matcher.forced()? {
            bytes.extend_from_slice(tokens.bytes(id));
            matcher.consume(id)?;
        }
        let mask = matcher.mask()?;
        let allowed: Vec<u32> = (0..vocabulary.size() as u32).filter(|&id| mask.allows(id)).collect();
        assert!(!allowed.is_empty(), "dead end after {:?}", String::from_utf8_lossy(&bytes));
        let ends = vocabulary.eos_ids().iter().any(|&id| mask.allows(id));
        assert_eq!(ends, matcher.is_accepting()?, "after {:?}", String::from_utf8_lossy(&bytes));
        if ends && (step > 40 || matcher.is_done()? || random.below(4) == 0) {
            return Ok(Walk::Value(String::from_utf8(bytes).expect("values are UTF-8")));
        }
        // Closing characters more often than chance would: unbounded strings end some day.
        let closing: Vec<u32> = allowed
            .iter()
            .copied()
            .filter(|&id| matches!(tokens.bytes(id), [b'"', ..] | [b']', ..] | [b'}', ..]))
            .collect();
        let from = if !closing.is_empty() && random.below(100) < 20 + step { &closing } else { &allowed };
        let plain: Vec<u32> = from.iter().copied().filter(|id| !vocabulary.eos_ids().contains(id)).collect();
        let id = plain[random.below(plain.len())];
        bytes.extend_from_slice(tokens.bytes(id));
        matcher.consume(id)?;
    }
    Ok(Walk::Truncated)
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let text = include_str!("schemas.json");
    let Value::Object(map) = serde_json::from_str(text).expect("schemas.json") else {
        panic!("an object of schemas")
    };
    map.into_iter().map(|(name, schema)| (&*Box::leak(name.into_boxed_str()), schema)).collect()
}

#[test]
fn walks_over_schemas_end_in_valid_values() {
    for (name, schema) in schemas() {
        let ty = Type::schema_value(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut complete = 0;
        for seed in 0..40 {
            match walk(&ty, &vocabulary(), tokens().as_ref(), seed, BUDGET)
                .unwrap_or_else(|e| panic!("{name}: {e}"))
            {
                Walk::Value(text) => {
                    complete += 1;
                    ty.check(&text).unwrap_or_else(|e| panic!("{name}: {text}: {e}"));
                }
                Walk::Truncated => {}
            }
        }
        assert!(complete >= 3, "{name}: only {complete} of 40 walks came to an end");
    }
}

#[test]
fn walks_over_expressions_end_in_valid_values() {
    for expr in [
        r#"{"id": "number", "name": "string < 64", "tags?": "string[] <= 5", "kind": "'bug' | 'feature'"}"#,
        "string.email | string.uuid",
        "0 <= number <= 1",
        "number.integer % 5",
        "(string < 4)[] == 2",
        r#"["number > 0", "boolean", "...", "'a'[]"]"#,
        "/^[a-c]{2,4}$/",
        "string.date.iso",
        "string.ip",
        "unknown",
        r#"{"[string]": "number"}"#,
        "string.url",
        r#"{"a?": "1", "b?": "2", "c?": "3"}"#,
        "-5 < number < 5",
    ] {
        let ty = Type::expr(expr).unwrap_or_else(|e| panic!("{expr}: {e}"));
        for seed in 0..40 {
            if let Walk::Value(text) = walk(&ty, &vocabulary(), tokens().as_ref(), seed, BUDGET).unwrap() {
                ty.check(&text).unwrap_or_else(|e| panic!("{expr}: {text}: {e}"));
            }
        }
    }
}

#[test]
fn walks_over_text_types_end_in_valid_texts() {
    for ty in [
        Type::text().unwrap(),
        Type::text_max(3).unwrap(),
        Type::text_max(0).unwrap(),
        Type::regex("(ab|c+)d?").unwrap(),
        Type::regex(r"\d{3}-\d{4}").unwrap(),
        Type::choice(["yes", "no", "not sure"]).unwrap(),
        Type::choice(["", "a"]).unwrap(),
    ] {
        for seed in 0..60 {
            if let Walk::Value(text) = walk(&ty, &vocabulary(), tokens().as_ref(), seed, BUDGET).unwrap() {
                assert_eq!(
                    ty.check(&text).unwrap_or_else(|e| panic!("{ty:?}: {text:?}: {e}")),
                    Value::String(text)
                );
            }
        }
    }
}
