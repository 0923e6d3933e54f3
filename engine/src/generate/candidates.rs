//! What a model would have said: the likeliest tokens at a choice, whether the type allows them or not.

use super::Event;
use crate::backend::Mask;
use crate::tokenizer::Tokenizer;
use serde::Serialize;

/// Most candidates that can be asked for.
pub const MAX_CANDIDATES: u32 = 64;

/// A token that the model might go on with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its bytes as text, where they are no UTF-8 with replacement characters; empty for the end.
    pub text: String,
    /// Among all tokens of the vocabulary, at temperature 1 and without penalties.
    pub probability: f64,
    /// Whether the type allows it here.
    pub allowed: bool,
}

/// The `count` likeliest tokens, likeliest first (of two alike the lower id), and the one taken if it is not among them.
pub(super) fn event(logits: &[f32], mask: &Mask, taken: u32, count: u32, tokenizer: &Tokenizer) -> Event {
    let mut best: Vec<u32> = Vec::new();
    let logit = |id: u32| logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
    let before = |a: &u32, b: &u32| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b));
    let count = count.min(MAX_CANDIDATES) as usize;
    for id in (0..logits.len() as u32).filter(|id| logit(*id).is_finite()) {
        // Few get in, so that the whole is one walk over the logits.
        if best.len() == count && best.last().is_some_and(|last| before(&id, last).is_gt()) {
            continue;
        }
        let at = best.partition_point(|other| before(other, &id).is_lt());
        best.insert(at, id);
        best.truncate(count);
    }
    if !best.contains(&taken) {
        best.push(taken);
    }
    let max = best.iter().map(|id| logit(*id)).fold(f32::NEG_INFINITY, f32::max);
    let weight = |x: f32| f64::from(x - max).exp();
    let sum: f64 = logits.iter().filter(|x| x.is_finite()).map(|x| weight(*x)).sum();
    let candidate = |id: u32| Candidate {
        id,
        text: match tokenizer.eos_ids().contains(&id) {
            true => String::new(),
            false => String::from_utf8_lossy(tokenizer.bytes(id)).into_owned(),
        },
        probability: weight(logit(id)) / sum,
        allowed: mask.allows(id),
    };
    Event::Candidates { candidates: best.into_iter().map(candidate).collect() }
}
