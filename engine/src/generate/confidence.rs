//! How sure a model was of a value: what it gave each leaf, and the other choices that the type left there.
//!
//! Nothing more is run than the value itself needs. At every token chosen from logits the distribution over the
//! tokens that the type allows is known; along an enum it says how the mass splits between the alternatives. The mass
//! of a token that leaves several open, and that the value did not go on with, is shared among these in proportion
//! to what is known of each.

use super::run::Run;
use super::spans::{self, Span};
use crate::backend::Mask;
use crate::constrain::Type;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens of a step that are kept. Where more are allowed there is no choice between a few values.
const MAX_CHOICES: usize = 2048;
/// Alternatives of a leaf; more are not listed.
const MAX_ALTERNATIVES: usize = 64;

/// How sure the model was of a value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Natural logarithm of the value's probability among all values of its type: the sum over its tokens, each
    /// normalised over the tokens that the type allowed. Forced tokens add nothing.
    pub logprob: f64,
    /// Every scalar of the value, in order; for text one leaf, the whole.
    pub leaves: Vec<Leaf>,
}

/// How sure the model was of a scalar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// JSON pointer.
    pub path: String,
    /// The part of the value's logarithm that its own tokens have.
    pub logprob: f64,
    /// The values that the type allowed here, if they are at most 64, the likeliest first; their probabilities sum to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
}

/// A value that a leaf could have had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// The value; for text types a string.
    pub value: Value,
    /// Its share among the alternatives.
    pub probability: f64,
}

/// What is kept of a token that was chosen from logits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    /// Bytes of the value before it, and its own.
    at: usize,
    bytes: Vec<u8>,
    logprob: f64,
    probability: f64,
    /// The other tokens that were allowed, if they are few: bytes (none for the end) and probability.
    others: Vec<(Vec<u8>, f32)>,
    few: bool,
}

/// The distribution over the allowed tokens, and the token taken.
pub(super) fn step<'t>(
    logits: &[f32],
    mask: &Mask,
    taken: u32,
    ends: &[u32],
    bytes: &dyn Fn(u32) -> &'t [u8],
    at: usize,
) -> Step {
    let allowed = || {
        let words = mask.words.iter().enumerate().filter(|(_, w)| **w != 0);
        let ids =
            words.flat_map(|(i, w)| (0..32).filter(move |b| w >> b & 1 == 1).map(move |b| i as u32 * 32 + b));
        ids.filter_map(|id| Some((id, f64::from(*logits.get(id as usize)?)))).filter(|(_, x)| x.is_finite())
    };
    let max = allowed().map(|(_, x)| x).fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut count) = (0.0, 0);
    for (_, x) in allowed() {
        sum += (x - max).exp();
        count += 1;
    }
    let log = |x: f64| x - max - sum.ln();
    let text = |id: u32| if ends.contains(&id) { Vec::new() } else { bytes(id).to_vec() };
    let few = count <= MAX_CHOICES;
    let others = allowed().filter(|(id, _)| few && *id != taken);
    let others = others.map(|(id, x)| (text(id), log(x).exp() as f32)).collect();
    let logprob = logits.get(taken as usize).map_or(f64::NEG_INFINITY, |x| log(f64::from(*x)));
    Step { at, bytes: text(taken), logprob, probability: logprob.exp(), others, few }
}

impl Run {
    /// What the steps say of the finished value.
    pub(super) fn confidence(&self) -> Result<Option<Confidence>> {
        match self.request.options.confidence {
            true => of(&self.request.ty, self.partial(), &self.steps).map(Some),
            false => Ok(None),
        }
    }
}

fn of(ty: &Type, text: &str, steps: &[Step]) -> Result<Confidence> {
    let spans = match ty.calls_in(text) {
        Some(calls) => spans::of_reply(text, &calls),
        None if ty.is_text() => vec![Span { path: String::new(), start: 0, end: text.len() }],
        None => spans::of_json(text),
    };
    let names = ty.tool_names();
    let mut leaves: Vec<Leaf> = Vec::with_capacity(spans.len());
    let mut choices = ty.choices()?;
    for span in &spans {
        let own = steps.iter().filter(|s| owner(s, &spans).is_some_and(|o| o.start == span.start));
        let logprob = sum(own);
        let texts = match &names {
            Some(names) if spans::is_name(&span.path) => {
                Some(names.clone()).filter(|names| names.len() <= MAX_ALTERNATIVES)
            }
            // What is said beside calls has no alternatives.
            Some(_) if span.path == spans::SAID => None,
            _ => choices.at(&text.as_bytes()[..span.start], MAX_ALTERNATIVES)?,
        };
        let alternatives = match texts {
            Some(texts) if texts.len() > 1 => alternatives(ty, text.as_bytes(), span, &texts, steps),
            _ => Vec::new(),
        };
        leaves.push(Leaf { path: span.path.clone(), logprob, alternatives });
    }
    Ok(Confidence { logprob: sum(steps.iter()), leaves })
}

/// Of no steps at all 0, where the standard library's sum is -0.
fn sum<'s>(steps: impl Iterator<Item = &'s Step>) -> f64 {
    steps.fold(0.0, |sum, step| sum + step.logprob)
}

/// The leaf that a token decides about: the one it begins in, else the first that begins in it.
fn owner<'s>(step: &Step, spans: &'s [Span]) -> Option<&'s Span> {
    let within = spans.iter().find(|s| s.start <= step.at && step.at < s.end);
    within.or_else(|| spans.iter().find(|s| step.at < s.start && s.start < step.at + step.bytes.len().max(1)))
}

/// Shares of the alternatives of a leaf; nothing where the steps do not say.
fn alternatives(ty: &Type, text: &[u8], span: &Span, texts: &[Vec<u8>], steps: &[Step]) -> Vec<Alternative> {
    let mut open: Vec<usize> = (0..texts.len()).collect();
    let mut groups: Vec<(Vec<usize>, f64)> = Vec::new();
    let mut left = 1.0;
    for step in steps {
        // One that ends inside what comes before the leaf decides nothing about it, one behind it only how far it goes.
        let reaches = step.at >= span.start || step.at + step.bytes.len() > span.start;
        if !reaches || step.at > span.end {
            continue;
        }
        let begun = text.get(span.start..step.at.max(span.start)).unwrap_or_default();
        open.retain(|&i| texts[i].starts_with(begun) || texts[i] == text[span.start..span.end]);
        if open.len() < 2 {
            break;
        }
        if !step.few {
            return Vec::new();
        }
        let before = text.get(step.at..span.start).unwrap_or_default();
        let taken = fitting(&step.bytes, before, begun.len(), &open, texts);
        let mut mass = step.probability;
        let mut others = Vec::new();
        for (bytes, p) in &step.others {
            let fits = fitting(bytes, before, begun.len(), &open, texts);
            if !fits.is_empty() {
                mass += f64::from(*p);
                others.push((fits, f64::from(*p)));
            }
        }
        if mass <= 0.0 {
            return Vec::new();
        }
        groups.extend(others.into_iter().map(|(fits, p)| (fits, left * p / mass)));
        left *= step.probability / mass;
        open = taken;
    }
    // What no step decided was forced.
    if let Some(&own) = open.iter().find(|&&i| texts[i] == text[span.start..span.end]) {
        open = vec![own];
    }
    groups.push((open, left));
    let mut share = vec![0.0; texts.len()];
    for (group, p) in groups.iter().filter(|(group, _)| group.len() == 1) {
        share[group[0]] += p;
    }
    let known = share.clone();
    for (group, p) in groups.iter().filter(|(group, _)| group.len() > 1) {
        let sum: f64 = group.iter().map(|&i| known[i]).sum();
        for &i in group {
            share[i] += if sum > 0.0 { p * known[i] / sum } else { p / group.len() as f64 };
        }
    }
    let sum: f64 = share.iter().sum();
    let string = |text: &[u8]| Value::String(String::from_utf8_lossy(text).into_owned());
    let value = |text: &[u8]| match text {
        _ if ty.is_text() && !ty.is_reply() => string(text),
        // As a reply in Python's notation has them.
        b"True" => true.into(),
        b"False" => false.into(),
        b"None" => Value::Null,
        _ => serde_json::from_slice(text).unwrap_or_else(|_| string(text)),
    };
    let mut all: Vec<Alternative> = texts
        .iter()
        .zip(share)
        .map(|(text, p)| Alternative {
            value: value(text),
            probability: if sum > 0.0 { p / sum } else { 0.0 },
        })
        .collect();
    all.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    all
}

/// Of the alternatives that are open, those that a token leaves open: `before` is what precedes the leaf from the
/// token's begin on, `done` how much of the leaf is written.
fn fitting(bytes: &[u8], before: &[u8], done: usize, open: &[usize], texts: &[Vec<u8>]) -> Vec<usize> {
    let Some(bytes) = bytes.strip_prefix(before) else { return Vec::new() };
    let fits = |text: &Vec<u8>| {
        let Some(rest) = text.get(done..) else { return false };
        match bytes.strip_prefix(rest) {
            // Behind it the value goes on, or ends.
            Some(after) => match after.first() {
                None => rest.is_empty() == bytes.is_empty(),
                Some(next) => matches!(next, b',' | b']' | b'}' | b')' | b'('),
            },
            None => !bytes.is_empty() && rest.starts_with(bytes),
        }
    };
    open.iter().copied().filter(|&i| fits(&texts[i])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step from tokens and probabilities; the first is taken.
    fn made(at: usize, tokens: &[(&str, f64)]) -> Step {
        let others = tokens[1..].iter().map(|(t, p)| (t.as_bytes().to_vec(), *p as f32)).collect();
        let (bytes, probability) = (tokens[0].0.as_bytes().to_vec(), tokens[0].1);
        Step { at, bytes, logprob: probability.ln(), probability, others, few: true }
    }

    fn shares(leaf: &Leaf) -> Vec<(String, f64)> {
        leaf.alternatives.iter().map(|a| (a.value.to_string(), (a.probability * 1e4).round() / 1e4)).collect()
    }

    #[test]
    fn masses_split_along_the_tokens() {
        let ty = Type::expr(r#"{"kind": "'bug' | 'feature'", "ok": "boolean", "n": "number"}"#).unwrap();
        let text = r#"{"kind":"bug","ok":true,"n":1.5}"#;
        let steps = [
            made(8, &[("\"", 0.8), ("\"b", 0.1), ("\"f", 0.1)]),
            made(9, &[("bug", 0.6), ("f", 0.2), ("fe", 0.1), ("b", 0.1)]),
            made(19, &[("true", 0.9), ("f", 0.1)]),
            made(28, &[("1", 0.5)]),
            made(29, &[(".5", 0.5)]),
            made(31, &[("}", 0.25)]),
        ];
        let all = of(&ty, text, &steps).unwrap();
        assert_eq!(all.leaves.iter().map(|l| l.path.as_str()).collect::<Vec<_>>(), ["/kind", "/ok", "/n"]);
        assert_eq!(shares(&all.leaves[0]), [("\"bug\"".into(), 0.66), ("\"feature\"".into(), 0.34)]);
        assert_eq!(shares(&all.leaves[1]), [("true".into(), 0.9), ("false".into(), 0.1)]);
        assert!(all.leaves[2].alternatives.is_empty());
        assert!((all.leaves[0].logprob - (0.8f64 * 0.6).ln()).abs() < 1e-9);
        assert!((all.leaves[2].logprob - 0.25f64.ln()).abs() < 1e-9, "the bracket is no leaf's");
        assert!((all.logprob - steps.iter().map(|s| s.logprob).sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn tokens_that_cross_the_borders_of_a_leaf_count() {
        let ty = Type::schema_value(serde_json::json!({
            "type": "array", "items": {"enum": [1, 12, 3]}, "minItems": 1, "maxItems": 2
        }))
        .unwrap();
        // The comma leaves the first item at 1, and the digit would have made it 12.
        let steps =
            [made(1, &[("1", 0.5), ("12", 0.1), ("3", 0.4)]), made(2, &[(",", 0.6), ("2", 0.3), ("]", 0.1)])];
        let all = of(&ty, "[1,3]", &steps).unwrap();
        assert_eq!(shares(&all.leaves[0]), [("3".into(), 0.4), ("1".into(), 0.35), ("12".into(), 0.25)]);
    }

    #[test]
    fn what_was_forced_is_certain() {
        let ty = Type::expr(r#"{"kind": "'bug'", "n": "1 | 2"}"#).unwrap();
        let all = of(&ty, r#"{"kind":"bug","n":1}"#, &[made(18, &[("1", 0.5), ("2", 0.5)])]).unwrap();
        assert_eq!(all.leaves[0].logprob.to_string(), "0", "not -0");
        assert_eq!(of(&Type::expr("'a'").unwrap(), "\"a\"", &[]).unwrap().logprob.to_string(), "0");
    }

    #[test]
    fn a_choice_is_one_leaf() {
        let ty = Type::choice(["yes", "no", "not sure"]).unwrap();
        let steps = [made(0, &[("no", 0.5), ("yes", 0.4), ("n", 0.1)]), made(2, &[("", 0.75), ("t", 0.25)])];
        let all = of(&ty, "no", &steps).unwrap();
        let [leaf] = all.leaves.as_slice() else { panic!("{all:?}") };
        // The mass of "n" alone is shared as the rest is: 0.375 to 0.125.
        assert_eq!(
            shares(leaf),
            [("\"no\"".into(), 0.45), ("\"yes\"".into(), 0.4), ("\"not sure\"".into(), 0.15)]
        );
    }

    #[test]
    fn scalars_are_found_with_their_pointers() {
        let text = r#"{"a/b":["x\"y",{"":null}],"c":{},"d":-1e5}"#;
        let found: Vec<_> =
            spans::of_json(text).into_iter().map(|s| (s.path, text[s.start..s.end].to_string())).collect();
        let want = [("/a~1b/0", r#""x\"y""#), ("/a~1b/1/", "null"), ("/d", "-1e5")];
        assert_eq!(found, want.map(|(p, t)| (p.to_string(), t.to_string())));
        assert_eq!(spans::of_json("\"only\"").len(), 1);
    }

    #[test]
    fn calls_of_tools_have_leaves() {
        use crate::constrain::{ToolChoice, ToolSyntax, Tools};
        let tool = |name: &str| {
            serde_json::json!({"name": name, "parameters": {"type": "object", "required": ["unit", "n"],
            "properties": {"unit": {"enum": ["c", "f"]}, "n": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}}}})
        };
        for (syntax, text, name, unit, truth, [f, g]) in [
            (ToolSyntax::Hermes, "Hm.<tool_call>\n{\"name\": \"g\", \"arguments\": {\"unit\":\"c\",\"n\":{\"x\":true}}}\n</tool_call>", "\"g\"", "\"c\"", ("true", "false"), ["\"f\"", "\"g\""]),
            (ToolSyntax::Pythonic, "Hm.<|tool_call_start|>[g(unit=\"c\",n={\"x\":True})]<|tool_call_end|>", "g(", "\"c\"", ("True", "False"), ["f(", "g("]),
        ] {
            let tools = Tools { syntax: Some(syntax), choice: ToolChoice::Auto, ..Tools::new(vec![tool("f"), tool("g")]) };
            let ty = Type::tools(tools).unwrap();
            ty.check(text).unwrap();
            let at = |part: &str| text.find(part).unwrap();
            let steps = [
                made(0, &[("Hm", 0.5)]),
                made(2, &[(".", 0.5)]),
                made(at(name), &[(g, 0.7), (f, 0.3)]),
                made(at(unit), &[(unit, 0.8), ("\"f\"", 0.2)]),
                made(at(truth.0), &[(truth.0, 0.9), (truth.1, 0.1)]),
            ];
            let all = of(&ty, text, &steps).unwrap();
            let paths: Vec<_> = all.leaves.iter().map(|l| l.path.as_str()).collect();
            assert_eq!(paths, ["/text", "/calls/0/name", "/calls/0/arguments/unit", "/calls/0/arguments/n/x"], "{text}");
            assert!(all.leaves[0].alternatives.is_empty() && (all.leaves[0].logprob - 0.25f64.ln()).abs() < 1e-9);
            let bare = |name: &str| format!("{name:?}");
            assert_eq!(shares(&all.leaves[1]), [(bare("g"), 0.7), (bare("f"), 0.3)], "{text}");
            assert_eq!(shares(&all.leaves[2]), [("\"c\"".into(), 0.8), ("\"f\"".into(), 0.2)], "{text}");
            assert_eq!(shares(&all.leaves[3]), [("true".into(), 0.9), ("false".into(), 0.1)], "{text}");
        }
    }
}
