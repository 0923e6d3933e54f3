//! Generated values into a grammar: compact JSON, properties in declared order.

use super::lower::{Low, LowArray, LowObject};
use super::node::{DefId, Numbers};
use super::nothing::NO_VALUE;
use super::rules::{Rules, Sym};
use super::{counted, lower, numbers, pattern, size};
use crate::error::{Error, Result};
use llguidance::api::GrammarInit;
use llguidance::derivre::RegexAst;
use std::collections::HashMap;

/// States of one object: fields times property counts.
const MAX_STATES: u64 = 40_000;

/// A grammar, and whether some object has keys that its type does not name.
pub(super) struct Emitted {
    pub grammar: GrammarInit,
    pub open_keys: bool,
}

/// The grammar of definition 0.
pub(super) fn emit(defs: &[Low], words: &'static str) -> Result<Emitted> {
    let finite = finite(defs);
    if !finite[0] {
        return Err(Error::ty("", "schema", NO_VALUE));
    }
    size::check(defs)?;
    let mut emitter = Emitter {
        finite,
        rules: Rules::new()?,
        symbols: vec![None; defs.len()],
        any: None,
        open_keys: false,
        words,
    };
    let mut todo = vec![0];
    let root = emitter.definition(0, &mut todo)?;
    while let Some(def) = todo.pop() {
        let sym = emitter.symbols[def].unwrap_or(root);
        let body = emitter.low(&defs[def], &mut todo)?;
        let body = body.ok_or_else(|| Error::Internal("a type with values has no grammar".into()))?;
        emitter.rules.add(sym, vec![body])?;
    }
    Ok(Emitted { grammar: emitter.rules.finish(root)?, open_keys: emitter.open_keys })
}

/// The grammar of unquoted text.
pub(super) fn emit_text(ast: RegexAst) -> Result<Emitted> {
    let mut rules = Rules::new()?;
    let root = rules.lexeme(ast)?;
    Ok(Emitted { grammar: rules.finish(root)?, open_keys: false })
}

/// Whether definition 0 has a value of finite size.
pub(super) fn has_values(defs: &[Low]) -> bool {
    finite(defs).first() == Some(&true)
}

/// Which definitions have a value of finite size: the least solution, found by iteration.
fn finite(defs: &[Low]) -> Vec<bool> {
    let mut known = vec![false; defs.len()];
    loop {
        let mut changed = false;
        for def in (0..defs.len()).rev() {
            if !known[def] && has_value(&defs[def], &known) {
                known[def] = true;
                changed = true;
            }
        }
        if !changed {
            return known;
        }
    }
}

fn has_value(low: &Low, known: &[bool]) -> bool {
    low.any
        || low.scalar.is_some()
        || low.refs.iter().any(|&def| known[def])
        || low.arrays.iter().any(|a| {
            if !a.counts.is_empty() {
                // One that is too large is refused when its grammar is made.
                return counted::states(a, &|l| has_value(l, known)).map_or(true, |s| counted::ends(&s));
            }
            let prefix = a.prefix.iter().take(usize::try_from(a.min).unwrap_or(usize::MAX));
            let beyond = a.min > a.prefix.len() as u64;
            prefix.into_iter().all(|n| has_value(n, known)) && (!beyond || has_value(&a.rest, known))
        })
        || low.objects.iter().any(|o| object_has_value(o, known))
        || low.seqs.iter().any(|parts| parts.iter().all(|p| has_value(p, known)))
}

fn object_has_value(o: &LowObject, known: &[bool]) -> bool {
    let mut required = 0;
    let mut possible = 0u64;
    for field in &o.fields {
        let ok = has_value(&field.value, known);
        if field.required && !ok {
            return false;
        }
        required += field.required as u64;
        possible += ok as u64;
    }
    let open = o.rest.iter().any(|(_, v)| has_value(v, known));
    o.max.is_none_or(|m| required.max(o.min) <= m) && (open || possible >= o.min)
}

struct Emitter {
    finite: Vec<bool>,
    rules: Rules,
    symbols: Vec<Option<Sym>>,
    any: Option<Sym>,
    open_keys: bool,
    words: &'static str,
}

impl Emitter {
    /// The symbol of a definition; its rules are made once, later.
    fn definition(&mut self, def: DefId, todo: &mut Vec<DefId>) -> Result<Sym> {
        if let Some(sym) = self.symbols[def] {
            return Ok(sym);
        }
        let sym = self.rules.fresh()?;
        self.symbols[def] = Some(sym);
        todo.push(def);
        Ok(sym)
    }

    /// `None` if there is no value.
    fn low(&mut self, low: &Low, todo: &mut Vec<DefId>) -> Result<Option<Sym>> {
        if low.any {
            return self.any().map(Some);
        }
        if !has_value(low, &self.finite) {
            return Ok(None);
        }
        let mut options = Vec::new();
        if let Some(ast) = &low.scalar {
            options.push(self.rules.lexeme(ast.clone())?);
        }
        for array in &low.arrays {
            options.extend(self.array(array, todo).map_err(|e| placed(e, &array.at))?);
        }
        for object in &low.objects {
            if object_has_value(object, &self.finite) {
                options.extend(self.object(object, todo).map_err(|e| placed(e, &object.at))?);
            }
        }
        for parts in &low.seqs {
            if !parts.iter().all(|p| has_value(p, &self.finite)) {
                continue;
            }
            let mut symbols = Vec::new();
            for part in parts {
                symbols.extend(self.low(part, todo)?);
            }
            options.push(self.rules.seq(symbols)?);
        }
        for &def in &low.refs {
            if self.finite[def] {
                options.push(self.definition(def, todo)?);
            }
        }
        Ok(if options.is_empty() { None } else { Some(self.rules.choice(&options)?) })
    }

    /// Any JSON value.
    fn any(&mut self) -> Result<Sym> {
        if let Some(sym) = self.any {
            return Ok(sym);
        }
        let any = self.rules.fresh()?;
        self.any = Some(any);
        self.open_keys = true;
        let number = numbers::language(&Numbers::default()).map_err(Error::Internal)?;
        let word = RegexAst::Regex(self.words.into());
        let string = lower::quote(RegexAst::Regex(pattern::ANY_STRING.into()));
        let key = RegexAst::Concat(vec![string.clone(), RegexAst::Literal(":".into())]);
        let scalar = self.rules.lexeme(RegexAst::Or(vec![word, number, string]))?;
        let key = self.rules.lexeme(key)?;
        let pair = self.rules.seq(vec![key, any])?;
        let array = self.bracketed("[", any, "]")?;
        let object = self.bracketed("{", pair, "}")?;
        for option in [scalar, array, object] {
            self.rules.add(any, vec![option])?;
        }
        Ok(any)
    }

    /// Any number of items between commas, in brackets.
    fn bracketed(&mut self, open: &str, item: Sym, close: &str) -> Result<Sym> {
        let items = self.items(item, 0, None)?;
        let (open, close) = (self.rules.literal(open)?, self.rules.literal(close)?);
        self.rules.seq(vec![open, items, close])
    }

    /// From `min` to `max` items between commas.
    fn items(&mut self, item: Sym, min: u64, max: Option<u64>) -> Result<Sym> {
        if max == Some(0) {
            return self.rules.empty();
        }
        let comma = self.rules.literal(",")?;
        let more = self.rules.seq(vec![comma, item])?;
        let more = self.rules.repeat(more, min.saturating_sub(1), max.map(|m| m - 1))?;
        let some = vec![item, more];
        if min == 0 {
            self.rules.either(vec![some, Vec::new()])
        } else {
            self.rules.seq(some)
        }
    }

    /// One symbol for what follows each state; its loops go to the left, which the parser does at no cost.
    fn counted(&mut self, a: &LowArray, todo: &mut Vec<DefId>) -> Result<Option<Sym>> {
        let states = {
            let finite = &self.finite;
            counted::states(a, &|low| has_value(low, finite))?
        };
        if !counted::ends(&states) {
            return Ok(None);
        }
        let comma = self.rules.literal(",")?;
        let mut items: HashMap<(usize, Option<usize>), Option<Sym>> = HashMap::new();
        let after = states.iter().map(|_| self.rules.fresh()).collect::<Result<Vec<_>>>()?;
        for (id, state) in states.iter().enumerate() {
            let (mut loops, mut exits) = (Vec::new(), Vec::new());
            for step in &state.steps {
                let key = (step.class, step.place);
                let item = match items.get(&key) {
                    Some(item) => *item,
                    None => self.low(a.item(step), todo)?,
                };
                items.insert(key, item);
                let Some(item) = item else { continue };
                match (step.next == id, id) {
                    (true, _) => loops.push(self.rules.seq(vec![comma, item])?),
                    (false, 0) => exits.push(vec![item, after[step.next]]),
                    (false, _) => exits.push(vec![comma, item, after[step.next]]),
                }
            }
            let begin = match loops.as_slice() {
                [] => None,
                some => {
                    let once = self.rules.choice(some)?;
                    Some(self.rules.star(once)?)
                }
            };
            if state.ends {
                exits.push(Vec::new());
            }
            for exit in exits {
                self.rules.add(after[id], begin.into_iter().chain(exit).collect())?;
            }
        }
        let (open, close) = (self.rules.literal("[")?, self.rules.literal("]")?);
        self.rules.seq(vec![open, after[0], close]).map(Some)
    }

    fn array(&mut self, a: &LowArray, todo: &mut Vec<DefId>) -> Result<Option<Sym>> {
        if !a.counts.is_empty() {
            return self.counted(a, todo);
        }
        let mut prefix = Vec::new();
        let mut max = a.max;
        for (i, low) in a.prefix.iter().enumerate() {
            match self.low(low, todo)? {
                Some(item) => prefix.push(item),
                None => {
                    max = Some(max.map_or(i as u64, |m| m.min(i as u64)));
                    break;
                }
            }
        }
        prefix.truncate(usize::try_from(max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
        let n = prefix.len() as u64;
        let rest = if max.is_some_and(|m| m <= n) { None } else { self.low(&a.rest, todo)? };
        let longest = if rest.is_some() { max } else { Some(n) };
        if longest.is_some_and(|m| m < a.min) {
            return Ok(None);
        }
        let comma = self.rules.literal(",")?;
        // From the end: what follows item i, given that something stands before it.
        let mut after = match rest {
            Some(item) if n == 0 => self.items(item, a.min, max)?,
            Some(item) => {
                let more = self.rules.seq(vec![comma, item])?;
                self.rules.repeat(more, a.min.saturating_sub(n), max.map(|m| m - n))?
            }
            None => self.rules.empty()?,
        };
        for (i, item) in prefix.iter().enumerate().rev() {
            let here = if i == 0 { vec![*item, after] } else { vec![comma, *item, after] };
            after = match i as u64 >= a.min {
                true => self.rules.either(vec![here, Vec::new()])?,
                false => self.rules.seq(here)?,
            };
        }
        let (open, close) = (self.rules.literal("[")?, self.rules.literal("]")?);
        self.rules.seq(vec![open, after, close]).map(Some)
    }

    fn object(&mut self, o: &LowObject, todo: &mut Vec<DefId>) -> Result<Option<Sym>> {
        let mut fields = Vec::new();
        for field in &o.fields {
            let Some(value) = self.low(&field.value, todo)? else { continue };
            let key = self.rules.literal(&field.text(o.arguments))?;
            fields.push((key, value, field.required));
        }
        let mut pairs = Vec::new();
        for (key, value) in &o.rest {
            let Some(value) = self.low(value, todo)? else { continue };
            let key =
                self.rules.lexeme(RegexAst::Concat(vec![key.clone(), RegexAst::Literal(":".into())]))?;
            pairs.push(self.rules.seq(vec![key, value])?);
        }
        self.open_keys |= !pairs.is_empty();
        let pair = if pairs.is_empty() { None } else { Some(self.rules.choice(&pairs)?) };
        let Some(body) = self.fields(&fields, pair, o.min, o.max)? else { return Ok(None) };
        let (open, close) = if o.arguments { ("(", ")") } else { ("{", "}") };
        let (open, close) = (self.rules.literal(open)?, self.rules.literal(close)?);
        self.rules.seq(vec![open, body, close]).map(Some)
    }

    /// Fields in order, then unnamed pairs. A state is the next field and the number of properties so far,
    /// counted only as far as it matters: up to `max`, or up to `min` (at least 1, for the comma).
    ///
    /// Each state has one symbol for "some property comes next": this field, or one behind it. A row of the matcher
    /// then holds two items for every field that may come, so that objects of many optional ones stay cheap.
    fn fields(
        &mut self,
        fields: &[(Sym, Sym, bool)],
        pair: Option<Sym>,
        min: u64,
        max: Option<u64>,
    ) -> Result<Option<Sym>> {
        // More properties than there are fields come from unnamed pairs only, which are counted apart.
        let n = fields.len() as u64;
        let top = max.unwrap_or(min.max(1)).min(n.max(1));
        if (n + 1).saturating_mul(top + 1) > MAX_STATES {
            return Err(Error::ty("", "minProperties, maxProperties", "too many properties to be counted"));
        }
        let comma = self.rules.literal(",")?;
        // By count: a property comes next, without the comma before it; what may follow a property.
        let mut next: Vec<Option<Sym>> = Vec::new();
        let mut after: Vec<Option<Sym>> = Vec::new();
        for count in 0..=top {
            next.push(self.pairs(pair, count, min, max)?);
            after.push(self.tail(pair, count, min, max)?);
        }
        let mut may_end = true;
        for &(key, value, required) in fields.iter().rev() {
            may_end &= !required;
            let mut here = Vec::new();
            for count in 0..=top {
                let full = max.is_some_and(|m| count >= m);
                let then = after[(count + 1).min(top) as usize].filter(|_| !full);
                let with = then.map(|then| vec![key, value, then]);
                let without = next[count as usize].filter(|_| !required);
                let options: Vec<Vec<Sym>> = with.into_iter().chain(without.map(|b| vec![b])).collect();
                here.push(match options.is_empty() {
                    true => None,
                    false => Some(self.rules.either(options)?),
                });
            }
            next = here;
            for count in 1..=top {
                let more = next[count as usize].map(|n| vec![comma, n]);
                after[count as usize] = self.or_end(more, may_end && count >= min)?;
            }
        }
        self.or_end(next[0].map(|n| vec![n]), may_end && min == 0)
    }

    /// What comes next, or nothing where the object may end.
    fn or_end(&mut self, next: Option<Vec<Sym>>, may_end: bool) -> Result<Option<Sym>> {
        match (next, may_end) {
            (Some(next), true) => self.rules.either(vec![next, Vec::new()]).map(Some),
            (None, true) => self.rules.empty().map(Some),
            (next, false) => next.map(|next| self.rules.seq(next)).transpose(),
        }
    }

    /// One unnamed pair or more after `count` properties, without the comma before the first.
    fn pairs(&mut self, pair: Option<Sym>, count: u64, min: u64, max: Option<u64>) -> Result<Option<Sym>> {
        let need = min.saturating_sub(count).max(1);
        let left = max.map(|m| m.saturating_sub(count));
        match pair.filter(|_| left.is_none_or(|l| l >= need)) {
            Some(pair) => self.items(pair, need, left).map(Some),
            None => Ok(None),
        }
    }

    /// What may follow `count` properties, the last field among them or left out: unnamed pairs, or the end.
    fn tail(&mut self, pair: Option<Sym>, count: u64, min: u64, max: Option<u64>) -> Result<Option<Sym>> {
        let need = min.saturating_sub(count);
        let left = max.map(|m| m.saturating_sub(count));
        match pair {
            None if need > 0 => Ok(None),
            None => self.rules.empty().map(Some),
            Some(_) if left.is_some_and(|l| l < need) => Ok(None),
            Some(pair) => {
                let comma = self.rules.literal(",")?;
                let more = self.rules.seq(vec![comma, pair])?;
                self.rules.repeat(more, need, left).map(Some)
            }
        }
    }
}

/// An error of the innermost array or object that has a place.
fn placed(e: Error, at: &str) -> Error {
    match e {
        Error::Type { at: here, keyword, reason } if here.is_empty() => Error::ty(at, keyword, reason),
        other => other,
    }
}
