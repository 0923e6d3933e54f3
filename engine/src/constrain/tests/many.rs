//! Random walks in numbers: random logits in place of a model, so that the matcher alone has to save the value, with
//! the vocabulary of a real model and a budget of random size.
//!
//! ```text
//! LEAN_WALKS=20000          values, over all schemas together
//! LEAN_SCHEMAS=DIR          further JSON Schemas (*.json), or those of JSONSchemaBench with instances:
//!                           {"schema": ..., "tests": [{"data": ..., "valid": ...}]}
//! LEAN_WALKS_OUT=FILE       what was generated, for scripts/walks.py: JSON lines {name, draft, schema, values}
//! ```

use super::budgets::generate;
use super::real::fixture;
use super::walks::schemas;
use super::*;
use crate::tokenizer::{Specials, Tokenizer};
use std::io::Write;
use std::time::Instant;

/// Tokens that a budget has beyond the least.
const MORE: usize = 200;

/// A schema, and instances of which it is known whether they are valid.
struct Given {
    name: String,
    schema: Value,
    tests: Vec<(Value, bool)>,
}

struct Walked {
    given: Given,
    values: Vec<String>,
}

fn walk_many(
    ty: &Type,
    vocabulary: &Vocabulary,
    tokenizer: &Tokenizer,
    n: usize,
    seed: u64,
) -> std::result::Result<Vec<String>, String> {
    let mut random = Random(seed);
    let needed = match generate(ty, vocabulary, tokenizer, seed, 0) {
        Ok(Err(needed)) => needed,
        other => return Err(format!("{other:?}")),
    };
    let one = |i: usize| {
        let budget = needed + random.below(MORE);
        let text = match generate(ty, vocabulary, tokenizer, seed + i as u64, budget) {
            Ok(Ok(text)) => text,
            other => return Err(format!("{budget} tokens where {needed} are enough: {other:?}")),
        };
        ty.check(&text).map_err(|e| format!("{text}: {e}"))?;
        Ok(text)
    };
    (0..n).map(one).collect()
}

#[test]
fn walks_with_a_real_vocabulary_end_in_valid_values() {
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size()).unwrap();
    for (i, (name, schema)) in schemas().into_iter().enumerate() {
        let ty = Type::schema_value(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        walk_many(&ty, &vocabulary, &tokenizer, 2, 1000 * i as u64).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// The project's schemas, and those of `LEAN_SCHEMAS`.
fn given() -> Vec<Given> {
    let own = schemas().into_iter();
    let mut all: Vec<Given> =
        own.map(|(name, schema)| Given { name: name.into(), schema, tests: Vec::new() }).collect();
    let Ok(dir) = std::env::var("LEAN_SCHEMAS") else { return all };
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("LEAN_SCHEMAS").map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files.into_iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let text = std::fs::read_to_string(&file).expect("a schema");
        let mut schema: Value = serde_json::from_str(&text).expect("JSON");
        let mut tests = Vec::new();
        if let (Some(inner), Some(Value::Array(list))) = (schema.get("schema"), schema.get("tests")) {
            tests = list.iter().map(|t| (t["data"].clone(), t["valid"] == json!(true))).collect();
            schema = inner.clone();
        }
        all.push(Given { name: file.display().to_string(), schema, tests });
    }
    all
}

/// Whether the grammar lets the text of an instance arise.
fn arises(ty: &Type, vocabulary: &Vocabulary, tokenizer: &Tokenizer, text: &str) -> bool {
    let mut matcher = Matcher::new(ty, vocabulary).unwrap();
    let ids = tokenizer.encode(text, Specials::Text).unwrap();
    ids.iter().all(|&id| matcher.consume(id).is_ok()) && matcher.is_accepting().unwrap()
}

#[test]
#[ignore = "minutes; see the README"]
fn many_walks_end_in_valid_values() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let wanted = number("LEAN_WALKS").unwrap_or(20_000);
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size()).unwrap();
    let all = given();
    let each = wanted.div_ceil(all.len());
    let (mut walked, mut refused, mut failed) = (Vec::new(), 0, 0);
    // Valid and invalid instances; of each how many are taken by the final validation, and by the grammar.
    let mut instances = [[0; 3]; 2];
    let began = Instant::now();
    for (i, given) in all.into_iter().enumerate() {
        let started = Instant::now();
        let ty = match Type::schema_value(given.schema.clone()) {
            Ok(ty) => ty,
            Err(e) => {
                println!("refused: {}: {e}", given.name);
                refused += 1;
                continue;
            }
        };
        for (data, valid) in &given.tests {
            let text = data.to_string();
            let counts = &mut instances[usize::from(!valid)];
            let (checked, arises) = (ty.check(&text).is_ok(), arises(&ty, &vocabulary, &tokenizer, &text));
            counts[0] += 1;
            counts[1] += usize::from(checked);
            counts[2] += usize::from(arises);
            if (checked || arises) && !valid || !checked && *valid {
                println!("instance: {}: valid is {valid}: {text}", given.name);
            }
        }
        match walk_many(&ty, &vocabulary, &tokenizer, each, 1_000_000 * i as u64) {
            Ok(values) => walked.push(Walked { given, values }),
            Err(e) => {
                println!("failed: {}: {e}", given.name);
                failed += 1;
                continue;
            }
        }
        if started.elapsed().as_secs() > 20 {
            println!(
                "slow: {:.0} s: {}",
                started.elapsed().as_secs_f64(),
                walked[walked.len() - 1].given.name
            );
        }
    }
    let count: usize = walked.iter().map(|w| w.values.len()).sum();
    println!(
        "{count} values of {} schemas ({refused} refused, {failed} failed) are valid; {:.0} s",
        walked.len(),
        began.elapsed().as_secs_f64()
    );
    for (kind, [n, checked, arise]) in ["valid", "invalid"].iter().zip(instances) {
        println!("{n} {kind} instances: {checked} are taken by the validation, {arise} as they are written by the grammar");
    }
    if let Ok(path) = std::env::var("LEAN_WALKS_OUT") {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path).expect("LEAN_WALKS_OUT"));
        for Walked { given: Given { name, schema, .. }, values } in walked {
            let draft = format!("{:?}", dialect::detect(&schema));
            let line = json!({ "name": name, "draft": draft, "schema": schema, "values": values });
            writeln!(out, "{line}").expect("LEAN_WALKS_OUT");
        }
    }
    assert_eq!(
        (failed, instances[1][1], instances[1][2]),
        (0, 0, 0),
        "failures, and invalid instances taken"
    );
}
