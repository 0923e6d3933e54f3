//! Random walks in numbers: random logits in place of a model, so that the matcher alone has to save the value, with
//! the vocabulary of a real model and a budget of random size.
//!
//! ```text
//! LEAN_WALKS=20000          values, over all schemas together
//! LEAN_SCHEMAS=DIR          further JSON Schemas (*.json)
//! LEAN_WALKS_OUT=FILE       what was generated, for scripts/walks.py: JSON lines {name, draft, schema, values}
//! ```

use super::budgets::generate;
use super::real::fixture;
use super::walks::schemas;
use super::*;
use crate::tokenizer::Tokenizer;
use std::io::Write;

/// Tokens that a budget has beyond the least.
const MORE: usize = 200;

struct Walked {
    name: String,
    schema: Value,
    values: Vec<String>,
}

fn walk_many(
    name: &str,
    ty: &Type,
    vocabulary: &Vocabulary,
    tokenizer: &Tokenizer,
    n: usize,
    seed: u64,
) -> Vec<String> {
    let mut random = Random(seed);
    let needed = match generate(ty, vocabulary, tokenizer, seed, 0) {
        Ok(Err(needed)) => needed,
        other => panic!("{name}: {other:?}"),
    };
    let one = |i: usize| {
        let budget = needed + random.below(MORE);
        let text = match generate(ty, vocabulary, tokenizer, seed + i as u64, budget) {
            Ok(Ok(text)) => text,
            other => panic!("{name}: {budget} tokens where {needed} are enough: {other:?}"),
        };
        ty.check(&text).unwrap_or_else(|e| panic!("{name}: {text}: {e}"));
        text
    };
    (0..n).map(one).collect()
}

#[test]
fn walks_with_a_real_vocabulary_end_in_valid_values() {
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size()).unwrap();
    for (i, (name, schema)) in schemas().into_iter().enumerate() {
        let ty = Type::schema_value(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        walk_many(name, &ty, &vocabulary, &tokenizer, 2, 1000 * i as u64);
    }
}

#[test]
#[ignore = "minutes; see the README"]
fn many_walks_end_in_valid_values() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let wanted = number("LEAN_WALKS").unwrap_or(20_000);
    let mut all: Vec<(String, Value)> = schemas().into_iter().map(|(n, s)| (n.to_string(), s)).collect();
    if let Ok(dir) = std::env::var("LEAN_SCHEMAS") {
        let mut files: Vec<_> =
            std::fs::read_dir(dir).expect("LEAN_SCHEMAS").map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in files.into_iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
            let text = std::fs::read_to_string(&file).expect("a schema");
            all.push((file.display().to_string(), serde_json::from_str(&text).expect("JSON")));
        }
    }
    let tokenizer = fixture();
    let vocabulary = Vocabulary::new(tokenizer.clone(), tokenizer.vocab_size()).unwrap();
    let (mut walked, mut refused) = (Vec::new(), 0);
    let types: Vec<(String, Value, Type)> = all
        .into_iter()
        .filter_map(|(name, schema)| match Type::schema_value(schema.clone()) {
            Ok(ty) => Some((name, schema, ty)),
            Err(e) => {
                println!("refused: {name}: {e}");
                refused += 1;
                None
            }
        })
        .collect();
    let each = wanted.div_ceil(types.len());
    let began = std::time::Instant::now();
    for (i, (name, schema, ty)) in types.into_iter().enumerate() {
        let values = walk_many(&name, &ty, &vocabulary, &tokenizer, each, 1_000_000 * i as u64);
        walked.push(Walked { name, schema, values });
    }
    let count: usize = walked.iter().map(|w| w.values.len()).sum();
    println!(
        "{count} values of {} schemas ({refused} refused) are valid; {:.0} s",
        walked.len(),
        began.elapsed().as_secs_f64()
    );
    if let Ok(path) = std::env::var("LEAN_WALKS_OUT") {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path).expect("LEAN_WALKS_OUT"));
        for Walked { name, schema, values } in walked {
            let draft = format!("{:?}", dialect::detect(&schema));
            let line = json!({ "name": name, "draft": draft, "schema": schema, "values": values });
            writeln!(out, "{line}").expect("LEAN_WALKS_OUT");
        }
    }
}
