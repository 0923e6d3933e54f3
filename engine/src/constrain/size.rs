//! How large the values of a type are at least, and how long the runs of text that it forces: a type that no value
//! could be written of is refused before anything is compiled.

use super::lower::{Low, LowArray, LowObject};
use super::node::DefId;
use crate::error::{Error, Result};
use llguidance::derivre::RegexAst;
use std::sync::Arc;

/// Bytes of the smallest value.
const MAX_LEAST: u64 = 1 << 20;
/// Lexemes (literals and punctuation) that follow each other without a choice. The matcher takes such a run in
/// one step, whose work is bounded.
const MAX_RUN: u64 = 20_000;
/// The length of a value that is not known to exist.
const NONE: u64 = u64::MAX;
/// Rounds in which recursive definitions settle; more only lower a bound that is already finite.
const ROUNDS: usize = 8;

/// What is known of the values of a definition.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of the smallest one; [`NONE`] while none is known.
    least: u64,
    run: Run,
}

/// Forced lexemes of a text: those at its start, at its end, and the longest run.
#[derive(Clone, Copy, Default, PartialEq)]
struct Run {
    /// Whether there is no choice at all.
    whole: bool,
    first: u64,
    last: u64,
    longest: u64,
}

impl Run {
    const EMPTY: Run = Run { whole: true, first: 0, last: 0, longest: 0 };
    const LEXEME: Run = Run { whole: true, first: 1, last: 1, longest: 1 };
    const FREE: Run = Run { whole: false, first: 0, last: 0, longest: 0 };

    fn then(self, next: Run) -> Run {
        Run {
            whole: self.whole && next.whole,
            first: if self.whole { self.first.saturating_add(next.first) } else { self.first },
            last: if next.whole { next.last.saturating_add(self.last) } else { next.last },
            longest: self.longest.max(next.longest).max(self.last.saturating_add(next.first)),
        }
    }

    fn times(self, n: u64) -> Run {
        match n {
            0 => Run::EMPTY,
            1 => self,
            _ if self.whole => {
                let all = self.first.saturating_mul(n);
                Run { whole: true, first: all, last: all, longest: all }
            }
            _ => self.then(self),
        }
    }

    /// One or the other: both begin alike at most as long as the shorter start.
    fn or(self, other: Run) -> Run {
        Run {
            whole: false,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            longest: self.longest.max(other.longest),
        }
    }

    fn optional(self) -> Run {
        self.or(Run::EMPTY)
    }
}

/// Refuses arrays and objects without a value of moderate size, and runs that are too long.
pub(super) fn check(defs: &[Low]) -> Result<()> {
    let mut sizes = Sizes { of: vec![Size { least: NONE, run: Run::FREE }; defs.len()] };
    let order = inner_first(defs);
    for _ in 0..ROUNDS {
        let mut changed = false;
        for &def in &order {
            let least = sizes.least(&defs[def]);
            changed |= least != sizes.of[def].least;
            sizes.of[def].least = least;
        }
        if !changed {
            break;
        }
    }
    for &def in &order {
        sizes.of[def].run = sizes.run(&defs[def])?;
    }
    // A value of which nothing is known to be finite has been refused already.
    match sizes.of.first() {
        Some(root) if root.least > MAX_LEAST && root.least < NONE => Err(too_large("", "schema")),
        _ => Ok(()),
    }
}

fn too_large(at: &str, keyword: &str) -> Error {
    Error::ty(at, keyword, format!("the smallest value is too large: more than {MAX_LEAST} bytes"))
}

/// Definitions after those that they refer to, as far as there is such an order.
fn inner_first(defs: &[Low]) -> Vec<DefId> {
    let refs: Vec<Vec<DefId>> = defs
        .iter()
        .map(|low| {
            let mut found = Vec::new();
            references(low, &mut found);
            found
        })
        .collect();
    let mut order = Vec::new();
    let mut seen = vec![false; defs.len()];
    for start in 0..defs.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut stack = vec![(start, refs[start].iter())];
        while let Some((def, rest)) = stack.last_mut() {
            match rest.next() {
                Some(&inner) => {
                    if !std::mem::replace(&mut seen[inner], true) {
                        stack.push((inner, refs[inner].iter()));
                    }
                }
                None => {
                    order.push(*def);
                    stack.pop();
                }
            }
        }
    }
    order
}

fn references(low: &Low, found: &mut Vec<DefId>) {
    found.extend(&low.refs);
    for array in &low.arrays {
        array.prefix.iter().chain([&array.rest]).for_each(|l| references(l, found));
        for class in &array.classes {
            class.prefix.iter().chain([&class.rest]).for_each(|l| references(l, found));
        }
    }
    for object in &low.objects {
        let values = object.fields.iter().map(|f| &f.value).chain(object.rest.iter().map(|(_, v)| v));
        values.for_each(|l| references(l, found));
    }
    low.seqs.iter().flatten().for_each(|part| references(part, found));
}

struct Sizes {
    of: Vec<Size>,
}

impl Sizes {
    fn least(&self, low: &Low) -> u64 {
        if low.any {
            return 1;
        }
        let scalar = low.scalar.iter().map(shortest);
        let arrays = low.arrays.iter().map(|a| self.least_array(a));
        let objects = low.objects.iter().map(|o| self.least_object(o));
        let refs = low.refs.iter().map(|&def| self.of[def].least);
        let seqs = low.seqs.iter().map(|parts| parts.iter().map(|p| self.least(p)).fold(0, plus));
        scalar.chain(arrays).chain(objects).chain(refs).chain(seqs).min().unwrap_or(NONE)
    }

    fn least_array(&self, a: &LowArray) -> u64 {
        let n = a.prefix.len() as u64;
        let prefix = a.prefix.iter().zip(0..a.min).map(|(low, _)| plus(self.least(low), 1));
        let more = match a.min.saturating_sub(n) {
            0 => 0,
            more => times(plus(self.least(&a.rest), 1), more),
        };
        plus(prefix.fold(1, plus), more)
    }

    fn least_object(&self, o: &LowObject) -> u64 {
        let mut required = 0;
        let mut bytes = 1;
        for field in o.fields.iter().filter(|f| f.required) {
            required += 1;
            bytes = plus(bytes, plus(self.least(&field.value), field.key.len() as u64 + 4));
        }
        // Two quotes, a colon, a value of one byte, a comma.
        plus(bytes, times(5, o.min.saturating_sub(required)))
    }

    fn run(&self, low: &Low) -> Result<Run> {
        if low.any {
            return Ok(Run::FREE);
        }
        let mut ways = Vec::new();
        if let Some(ast) = &low.scalar {
            ways.push(if is_constant(ast) { Run::LEXEME } else { Run::FREE });
        }
        for array in &low.arrays {
            let run = self.run_of_array(array)?;
            ways.push(fits(run, self.least_array(array), &array.at, "minItems")?);
        }
        for object in &low.objects {
            let run = self.run_of_object(object)?;
            ways.push(fits(run, self.least_object(object), &object.at, "required, minProperties")?);
        }
        ways.extend(low.refs.iter().map(|&def| self.of[def].run));
        for parts in &low.seqs {
            let runs = parts.iter().map(|p| self.run(p)).collect::<Result<Vec<_>>>()?;
            ways.extend(runs.into_iter().reduce(Run::then));
        }
        Ok(ways.into_iter().reduce(Run::or).unwrap_or(Run::FREE))
    }

    fn run_of_array(&self, a: &LowArray) -> Result<Run> {
        let n = a.prefix.len() as u64;
        let mut run = Run::LEXEME;
        for (low, i) in a.prefix.iter().zip(0..) {
            let item = self.run(low)?.then(Run::LEXEME);
            run = run.then(if i < a.min { item } else { item.optional() });
        }
        let item = self.run(&a.rest)?.then(Run::LEXEME);
        run = run.then(item.times(a.min.saturating_sub(n)));
        if a.max.is_none_or(|m| m > a.min.max(n)) {
            // Each further item is a choice, and may be forced itself.
            run = run.then(item.optional());
        }
        let counted = a.counts.iter().fold(0u64, |sum, c| sum.saturating_add(c.min));
        for class in a.classes.iter().filter(|c| c.counts_for != 0) {
            run = run.then(self.run(&class.rest)?.then(Run::LEXEME).times(counted));
        }
        Ok(run.then(Run::LEXEME))
    }

    fn run_of_object(&self, o: &LowObject) -> Result<Run> {
        let mut run = Run::LEXEME;
        for field in &o.fields {
            let pair = Run::LEXEME.then(self.run(&field.value)?).then(Run::LEXEME);
            run = run.then(if field.required { pair } else { pair.optional() });
        }
        for (_, value) in &o.rest {
            run = run.then(Run::FREE.then(self.run(value)?).optional());
        }
        Ok(run.then(Run::LEXEME))
    }
}

fn plus(a: u64, b: u64) -> u64 {
    if a == NONE || b == NONE {
        return NONE;
    }
    a.saturating_add(b).min(NONE - 1)
}

fn times(a: u64, n: u64) -> u64 {
    if a == NONE {
        return NONE;
    }
    a.saturating_mul(n).min(NONE - 1)
}

fn fits(run: Run, least: u64, at: &Arc<str>, keyword: &str) -> Result<Run> {
    if least > MAX_LEAST && least < NONE {
        return Err(too_large(at, keyword));
    }
    if run.longest > MAX_RUN {
        let reason = format!("the values are too large: {} constants and marks follow each other without a choice; at most {MAX_RUN} may", run.longest);
        return Err(Error::ty(&**at, keyword, reason));
    }
    Ok(run)
}

/// Whether there is but one text.
fn is_constant(ast: &RegexAst) -> bool {
    match ast {
        RegexAst::Literal(_) => true,
        RegexAst::Or(all) => matches!(all.as_slice(), [one] if is_constant(one)),
        _ => false,
    }
}

/// Bytes of the shortest text of a language, or fewer.
fn shortest(ast: &RegexAst) -> u64 {
    match ast {
        RegexAst::Literal(text) => text.len() as u64,
        RegexAst::Or(all) => all.iter().map(shortest).min().unwrap_or(0),
        RegexAst::And(all) => all.iter().map(shortest).max().unwrap_or(0),
        RegexAst::Concat(all) => all.iter().map(shortest).fold(0, u64::saturating_add),
        RegexAst::Repeat(inner, min, _) => shortest(inner).max(1).saturating_mul(u64::from(*min)),
        RegexAst::JsonQuote(inner, _) => shortest(inner).saturating_add(2),
        _ => 0,
    }
}

/// Bytes of the longest literal path through a language: the matcher has a state for each.
pub(super) fn literal_bytes(ast: &RegexAst) -> usize {
    match ast {
        RegexAst::Literal(text) => text.len(),
        RegexAst::Or(all) | RegexAst::And(all) => all.iter().map(literal_bytes).max().unwrap_or(0),
        RegexAst::Concat(all) => all.iter().map(literal_bytes).sum(),
        RegexAst::Repeat(inner, ..) | RegexAst::JsonQuote(inner, _) => literal_bytes(inner),
        _ => 0,
    }
}
