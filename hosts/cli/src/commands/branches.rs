//! The part of `lean bench` that decodes several branches of one context.

use super::bench::ids;
use crate::args::BenchArgs;
use lean_engine::{Block, BranchRequest, Error, Model, Request, Result, Session, SessionOptions, Type};
use serde_json::json;
use std::time::Instant;

/// What decoding several branches of one context took, together and one after the other.
pub struct Branches {
    count: usize,
    tokens: u64,
    together: Pace,
    in_sequence: Pace,
}

/// Of all branches: tokens per second, and passes over the weights.
struct Pace {
    tokens_per_second: f64,
    passes: u64,
}

impl Branches {
    /// Decodes branches that differ in their seeds alone.
    pub fn measure(model: &Model, args: &BenchArgs, count: usize) -> Result<Self> {
        let mut session = model.session(SessionOptions::default())?;
        session.append(&[Block::Tokens(ids(model, args.prefill))])?;
        let requests = (0..count as u64)
            .map(|seed| Ok(Request::new(Type::text()?).max_tokens(args.decode).sample(1.0, seed)))
            .collect::<Result<Vec<_>>>()?;
        let (in_sequence, tokens) = pace(model, || {
            let one =
                |request: &Request| session.fork()?.into_generation(request).map_err(|(_, e)| e)?.finish();
            requests.iter().map(|request| Ok(one(request)?.tokens.len() as u64)).sum()
        })?;
        let (together, same) = pace(model, || decode_together(&session, &requests))?;
        if tokens != same {
            return Err(Error::Internal(format!("{same} tokens together, {tokens} in sequence")));
        }
        Ok(Branches { count, tokens, together, in_sequence })
    }

    pub fn json(&self) -> serde_json::Value {
        let pace = |p: &Pace| json!({ "tokens_per_second": p.tokens_per_second, "passes": p.passes });
        json!({
            "count": self.count, "tokens": self.tokens,
            "together": pace(&self.together), "in_sequence": pace(&self.in_sequence),
        })
    }

    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |how: &str, pace: &Pace| {
            let measured = format!(
                "{:.1} tokens/s, {} passes over the weights for {} tokens",
                pace.tokens_per_second, pace.passes, self.tokens
            );
            vec![format!("{} branches {how}", self.count), measured]
        };
        vec![row("together", &self.together), row("in sequence", &self.in_sequence)]
    }
}

fn decode_together(session: &Session, requests: &[Request]) -> Result<u64> {
    let branches: Vec<_> = requests.iter().map(|request| BranchRequest { blocks: &[], request }).collect();
    let generations = session.generate_many(&branches)?;
    generations.into_iter().map(|g| Ok(g.finish()?.tokens.len() as u64)).sum()
}

/// Runs something that returns how many tokens it made.
fn pace(model: &Model, run: impl FnOnce() -> Result<u64>) -> Result<(Pace, u64)> {
    let (before, start) = (model.stats().passes, Instant::now());
    let tokens = run()?;
    let tokens_per_second = tokens as f64 / start.elapsed().as_secs_f64();
    Ok((Pace { tokens_per_second, passes: model.stats().passes - before }, tokens))
}
