//! Values end within their budget, whatever a model prefers.

use super::walks::schemas;
use super::*;
use crate::constrain::Steer;

/// What a generation does with random logits: forced tokens, then one at random that still lets the value end.
pub(super) fn generate(
    ty: &Type,
    vocabulary: &Vocabulary,
    tokens: &dyn Tokens,
    seed: u64,
    budget: usize,
) -> Result<std::result::Result<String, usize>> {
    let mut random = Random(seed ^ 0x51_7CC1_B727_2202);
    let mut matcher = Matcher::new(ty, vocabulary)?;
    let mut steer = Steer::new(ty)?;
    let needed = steer.needed(&matcher, budget)?;
    if needed > budget {
        return Ok(Err(needed));
    }
    let (mut bytes, mut spent) = (Vec::new(), 0);
    let mut take = |id: u32, matcher: &mut Matcher, steer: &mut Steer| -> Result<()> {
        matcher.consume(id)?;
        steer.follow(id, tokens.bytes(id))?;
        bytes.extend_from_slice(tokens.bytes(id));
        spent += 1;
        assert!(spent <= budget, "{spent} tokens: {:?}", String::from_utf8_lossy(&bytes));
        Ok(())
    };
    let mut left = budget;
    loop {
        for id in matcher.forced()? {
            take(id, &mut matcher, &mut steer)?;
            left -= 1;
        }
        if matcher.is_done()? || left == 0 {
            break;
        }
        let mask = matcher.mask()?;
        let allowed: Vec<u32> = (0..vocabulary.size() as u32).filter(|&id| mask.allows(id)).collect();
        let id = allowed[random.below(allowed.len())];
        if vocabulary.eos_ids().contains(&id) {
            break;
        }
        let id = match steer.admits(id, tokens.bytes(id), &matcher, left - 1)? {
            true => id,
            false => match steer.fallback(&matcher)? {
                Some(id) => id,
                None => break,
            },
        };
        take(id, &mut matcher, &mut steer)?;
        left -= 1;
    }
    assert!(matcher.is_accepting()?, "cut off: {:?}", String::from_utf8_lossy(&bytes));
    Ok(Ok(String::from_utf8(bytes).expect("values are UTF-8")))
}

fn assert_steered(name: &str, ty: &Type, vocabulary: &Vocabulary, tokens: &dyn Tokens) {
    let least = match generate(ty, vocabulary, tokens, 0, 0) {
        Ok(Err(needed)) => needed,
        Ok(Ok(text)) => {
            assert_eq!(text, "", "{name}");
            0
        }
        Err(e) => panic!("{name}: {e}"),
    };
    let budgets = (least..least + 8).chain([least + 13, least + 30, 2 * least + 60]);
    for (seed, budget) in budgets.enumerate() {
        match generate(ty, vocabulary, tokens, seed as u64, budget) {
            Ok(Ok(text)) => {
                ty.check(&text).unwrap_or_else(|e| panic!("{name}, {budget} tokens: {text}: {e}"));
            }
            other => panic!("{name}, {budget} tokens where {least} are enough: {other:?}"),
        }
    }
}

#[test]
fn every_schema_ends_in_every_budget() {
    for (name, schema) in schemas() {
        let ty = Type::schema_value(schema).unwrap();
        assert_steered(name, &ty, &vocabulary(), tokens().as_ref());
    }
}

#[test]
fn expressions_and_texts_end_in_every_budget() {
    for expr in [
        r#"{"id": "number", "name": "string < 64", "tags?": "string[] <= 5", "kind": "'bug' | 'feature'"}"#,
        "string.email | string.uuid",
        "number.integer % 5",
        "(string < 4)[] == 2",
        r#"["number > 0", "boolean", "...", "'a'[]"]"#,
        "/^[a-c]{2,4}$/",
        "/^日本+$/",
        "string.date.iso",
        "unknown",
        "unknown[] >= 3",
        r#"{"[string]": "number"}"#,
        "40 <= string <= 400",
        "string[] >= 30",
    ] {
        assert_steered(expr, &Type::expr(expr).unwrap(), &vocabulary(), tokens().as_ref());
    }
    for ty in [
        Type::regex("(ab|c+)d?").unwrap(),
        Type::regex(r"\d{3}-\d{4}").unwrap(),
        Type::choice(["yes", "no", "not sure"]).unwrap(),
        Type::choice(["", "a"]).unwrap(),
    ] {
        assert_steered("text", &ty, &vocabulary(), tokens().as_ref());
    }
}

/// The count that a refusal names is the least for types whose values have one length.
#[test]
fn refusals_name_the_count_that_is_enough() {
    let named = |ty: Type| match generate(&ty, &vocabulary(), tokens().as_ref(), 0, 0).unwrap() {
        Err(needed) => needed,
        Ok(text) => panic!("{text}"),
    };
    assert_eq!(named(Type::expr("null").unwrap()), 1);
    assert_eq!(named(Type::expr("'bug'").unwrap()), 1, "one token has the quotes as well");
    assert_eq!(named(Type::expr("'bug'[] >= 3").unwrap()), "[,,]".len() + 3);
    // {" id ": true }
    assert_eq!(named(Type::expr(r#"{"id": "true", "a?": "1", "b?": "string"}"#).unwrap()), 5);
    // Distinct keys, the shortest ones: {"":0,"a":0,"b":0}
    let pairs =
        Type::schema(r#"{"additionalProperties": {"const": 0}, "minProperties": 3, "type": "object"}"#);
    let text = r#"{"":0,"a":0,"b":0}"#;
    assert!(named(pairs.unwrap()) <= text.len());
}

/// Values that nest deeper than can be checked are never begun.
#[test]
fn nesting_is_bounded() {
    let ty = Type::expr("unknown").unwrap();
    let (tokens, vocabulary) = (tokens(), vocabulary());
    let mut matcher = Matcher::new(&ty, &vocabulary).unwrap();
    let mut steer = Steer::new(&ty).unwrap();
    let open = tokens.encode("[").unwrap()[0];
    let mut depth = 0;
    while steer.admits(open, b"[", &matcher, 10_000).unwrap() {
        matcher.consume(open).unwrap();
        steer.follow(open, b"[").unwrap();
        depth += 1;
        assert!(depth < 200);
    }
    let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    ty.check(&text).unwrap();
    assert!(depth > 100);
}
