//! Intersection of nodes, and proofs that nodes share no value.

use super::decimal::Decimal;
use super::node::*;
use super::pattern::{self, Pattern};
use super::stop;
use crate::error::{Error, Result};
use indexmap::IndexMap;
use llguidance::derivre::RegexAst;
use std::sync::Arc;

/// Nesting of compositions: recursive definitions that are composed with each other never end.
const MAX_DEPTH: usize = 48;
/// Steps of all compositions of one type together.
const MAX_STEPS: usize = 200_000;

/// Knows the definitions, and how much work is left.
pub(super) trait Resolve {
    /// The node of a definition; an error if it is still being read.
    fn resolve(&mut self, def: DefId) -> Result<Node>;
    /// Steps spent so far.
    fn steps(&mut self) -> &mut usize;
    /// Where the composition is, for messages.
    fn at(&self) -> String;
}

fn spend(r: &mut dyn Resolve, depth: usize) -> Result<()> {
    stop::check()?;
    *r.steps() += 1;
    if depth > MAX_DEPTH {
        return Err(Error::ty(
            r.at(),
            "allOf",
            "recursive definitions are composed with each other without end",
        ));
    }
    if *r.steps() > MAX_STEPS {
        return Err(Error::ty(r.at(), "schema", "compositions multiply out beyond the limit"));
    }
    Ok(())
}

/// Values in both nodes.
pub(super) fn intersect(r: &mut dyn Resolve, a: &Node, b: &Node) -> Result<Node> {
    meet(r, a, b, 0)
}

fn meet(r: &mut dyn Resolve, a: &Node, b: &Node, depth: usize) -> Result<Node> {
    spend(r, depth)?;
    let (x, y) = match (a, b) {
        (Node::Any, n) | (n, Node::Any) => return Ok(n.clone()),
        (Node::Union(x), Node::Union(y)) => (x, y),
    };
    if let ([p], [q]) = (x.as_slice(), y.as_slice()) {
        if let (Kind::Ref(i), Kind::Ref(j)) = (&p.kind, &q.kind) {
            if i == j {
                return Ok(Node::Union(vec![both(p, q, p.kind.clone())]));
            }
        }
    }
    let (x, y) = (expand(r, x)?, expand(r, y)?);
    let mut arms = Vec::new();
    for p in &x {
        for q in &y {
            spend(r, depth)?;
            if let Some(kind) = meet_kinds(r, &p.kind, &q.kind, depth)? {
                arms.push(both(p, q, kind));
            }
        }
    }
    Ok(Node::Union(arms))
}

fn both(p: &Arm, q: &Arm, kind: Kind) -> Arm {
    let not = p.not.iter().chain(&q.not).cloned().collect();
    Arm { kind, implied: p.implied && q.implied, not }
}

/// The arms with references replaced by what they stand for.
pub(super) fn expand(r: &mut dyn Resolve, arms: &[Arm]) -> Result<Vec<Arm>> {
    let mut out = Vec::new();
    let mut todo: Vec<(Arm, usize)> = arms.iter().rev().map(|a| (a.clone(), 0)).collect();
    while let Some((arm, hops)) = todo.pop() {
        let Kind::Ref(def) = arm.kind else {
            out.push(arm);
            continue;
        };
        spend(r, hops)?;
        for mut inner in r.resolve(def)?.into_arms().into_iter().rev() {
            inner.not.extend(arm.not.iter().cloned());
            todo.push((inner, hops + 1));
        }
    }
    Ok(out)
}

fn meet_kinds(r: &mut dyn Resolve, a: &Kind, b: &Kind, depth: usize) -> Result<Option<Kind>> {
    Ok(match (a, b) {
        (Kind::Null, Kind::Null) => Some(Kind::Null),
        (Kind::Bool(x), Kind::Bool(y)) if x == y => Some(Kind::Bool(*x)),
        (Kind::Number(x), Kind::Number(y)) => numbers(x, y).map(|n| Kind::Number(Arc::new(n))),
        (Kind::String(x), Kind::String(y)) => strings(x, y).map(|s| Kind::String(Arc::new(s))),
        (Kind::Array(x), Kind::Array(y)) => arrays(r, x, y, depth)?.map(|v| Kind::Array(Arc::new(v))),
        (Kind::Object(x), Kind::Object(y)) => objects(r, x, y, depth)?.map(|v| Kind::Object(Arc::new(v))),
        _ => None,
    })
}

/// Numbers in both sets, unless there is none for sure.
pub(super) fn numbers(a: &Numbers, b: &Numbers) -> Option<Numbers> {
    if let Some((list, other)) = a.literals.as_ref().map(|l| (l, b)).or(b.literals.as_ref().map(|l| (l, a))) {
        let list: Vec<_> = list.iter().filter(|d| other.contains(d)).cloned().collect();
        return (!list.is_empty()).then(|| Numbers { literals: Some(list), ..Default::default() });
    }
    let min = tighter(&a.min, &b.min, |x, y| x.value > y.value);
    let max = tighter(&a.max, &b.max, |x, y| x.value < y.value);
    if let (Some(lo), Some(hi)) = (&min, &max) {
        if lo.value > hi.value || (lo.value == hi.value && (lo.exclusive || hi.exclusive)) {
            return None;
        }
    }
    let join = |a: &[Decimal], b: &[Decimal]| {
        let more = b.iter().filter(|m| !a.contains(m));
        a.iter().chain(more).cloned().collect()
    };
    Some(Numbers {
        literals: None,
        integer: a.integer || b.integer,
        min,
        max,
        multiples: join(&a.multiples, &b.multiples),
        no_multiples: join(&a.no_multiples, &b.no_multiples),
        except: join(&a.except, &b.except),
        at: blamed(a, b),
    })
}

/// Which of two schemas to name where their numbers cannot be written: the one whose own cannot.
fn blamed(a: &Numbers, b: &Numbers) -> Option<Arc<str>> {
    match (&a.at, &b.at) {
        (Some(at), Some(other)) if at != other && super::numbers::language(b).is_err() => b.at.clone(),
        (Some(_), _) => a.at.clone(),
        (None, _) => b.at.clone(),
    }
}

fn tighter(a: &Option<Bound>, b: &Option<Bound>, wins: fn(&Bound, &Bound) -> bool) -> Option<Bound> {
    match (a, b) {
        (Some(x), Some(y)) if x.value == y.value => Some(if x.exclusive { x.clone() } else { y.clone() }),
        (Some(x), Some(y)) => Some(if wins(x, y) { x.clone() } else { y.clone() }),
        (x, y) => x.clone().or_else(|| y.clone()),
    }
}

/// Strings in both sets, unless there is none for sure.
pub(super) fn strings(a: &Strings, b: &Strings) -> Option<Strings> {
    if let Some((list, other)) = a.literals.as_ref().map(|l| (l, b)).or(b.literals.as_ref().map(|l| (l, a))) {
        let list: Vec<_> = list.iter().filter(|s| other.contains(s)).cloned().collect();
        return (!list.is_empty()).then(|| Strings { literals: Some(list), ..Default::default() });
    }
    let min = a.min.max(b.min);
    let max = least(a.max, b.max);
    if max.is_some_and(|max| min > max) {
        return None;
    }
    let join = |x: &[Pattern], y: &[Pattern]| {
        let mut all = x.to_vec();
        all.extend(y.iter().filter(|p| !x.iter().any(|q| q.same(p))).cloned());
        all
    };
    Some(Strings {
        literals: None,
        min,
        max,
        matching: join(&a.matching, &b.matching),
        except: join(&a.except, &b.except),
    })
}

pub(super) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    }
}

fn arrays(r: &mut dyn Resolve, a: &Array, b: &Array, depth: usize) -> Result<Option<Array>> {
    let min = a.min.max(b.min);
    let mut max = least(a.max, b.max);
    let mut prefix = Vec::new();
    for i in 0..a.prefix.len().max(b.prefix.len()) {
        let item = meet(r, a.item(i), b.item(i), depth + 1)?;
        if item.is_never() {
            max = least(max, Some(i as u64));
            break;
        }
        prefix.push(item);
    }
    let rest = meet(r, &a.rest, &b.rest, depth + 1)?;
    if max.is_some_and(|max| min > max) || (rest.is_never() && min > prefix.len() as u64) {
        return Ok(None);
    }
    let contains = a.contains.iter().chain(&b.contains).cloned().collect();
    let (unique, evaluated) = (a.unique || b.unique, a.evaluated.max(b.evaluated));
    Ok(Some(Array { at: place(&a.at, &b.at), prefix, rest, min, max, contains, unique, evaluated }))
}

fn objects(r: &mut dyn Resolve, a: &Object, b: &Object, depth: usize) -> Result<Option<Object>> {
    let mut props = IndexMap::new();
    for (key, node) in &a.props {
        let node = match b.props.get(key) {
            Some(other) => meet(r, node, other, depth + 1)?,
            None => meet_clauses(r, node, b, key, depth)?,
        };
        props.insert(key.clone(), node);
    }
    for (key, node) in &b.props {
        if !a.props.contains_key(key) {
            props.insert(key.clone(), meet_clauses(r, node, a, key, depth)?);
        }
    }
    let mut required = a.required.clone();
    required.extend(b.required.iter().cloned());
    if required.iter().any(|key| props.get(key).is_some_and(Node::is_never)) {
        return Ok(None);
    }
    let clauses = a.clauses.iter().chain(&b.clauses).cloned().collect();
    let (min, max) = (a.min.max(b.min), least(a.max, b.max));
    if max.is_some_and(|max| min.max(required.len() as u64) > max) {
        return Ok(None);
    }
    let evaluated = a.evaluated.or(&b.evaluated);
    Ok(Some(Object { at: place(&a.at, &b.at), props, required, clauses, min, max, evaluated }))
}

/// The place of a composition: that of the first part that has one.
fn place(a: &Arc<str>, b: &Arc<str>) -> Arc<str> {
    if a.is_empty() {
        b.clone()
    } else {
        a.clone()
    }
}

/// A node, and everything that an object says of a key that it does not name.
pub(super) fn meet_clauses(
    r: &mut dyn Resolve,
    node: &Node,
    o: &Object,
    key: &str,
    depth: usize,
) -> Result<Node> {
    let mut node = node.clone();
    for clause in o.clauses_for(key) {
        node = meet(r, &node, clause, depth + 1)?;
    }
    Ok(node)
}

/// Everything that an object says of the value of a key.
pub(super) fn value_of(r: &mut dyn Resolve, o: &Object, key: &str) -> Result<Node> {
    match o.props.get(key) {
        Some(node) => Ok(node.clone()),
        None => meet_clauses(r, &Node::Any, o, key, 0),
    }
}

/// Whether no value that is generated from `arm` validates against `other`, for sure. The generated side is
/// closed: an object has only keys that its type names.
pub(super) fn apart(r: &mut dyn Resolve, arm: &Arm, other: &Node, depth: usize) -> Result<bool> {
    spend(r, depth)?;
    if depth > MAX_DEPTH / 2 {
        return Ok(false);
    }
    let Node::Union(others) = other else { return Ok(false) };
    for q in &expand(r, others)? {
        for p in &expand(r, std::slice::from_ref(arm))? {
            if !kinds_apart(r, &p.kind, &q.kind, depth)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn nodes_apart(r: &mut dyn Resolve, a: &Node, b: &Node, depth: usize) -> Result<bool> {
    for arm in generated(a) {
        if !apart(r, &arm, b, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The arms that values are generated from: implied kinds only where there is nothing else.
pub(super) fn generated(node: &Node) -> Vec<Arm> {
    let arms = node.clone().into_arms();
    if arms.iter().any(|a| !a.implied) {
        arms.into_iter().filter(|a| !a.implied).collect()
    } else {
        arms
    }
}

fn kinds_apart(r: &mut dyn Resolve, a: &Kind, b: &Kind, depth: usize) -> Result<bool> {
    Ok(match (a, b) {
        (Kind::Null, Kind::Null) => false,
        (Kind::Bool(x), Kind::Bool(y)) => x != y,
        (Kind::Number(x), Kind::Number(y)) => numbers(x, y).is_none(),
        (Kind::String(x), Kind::String(y)) => match strings(x, y) {
            None => true,
            Some(s) => s.literals.is_none() && pattern::is_empty(&string_language(&s)) == Some(true),
        },
        (Kind::Array(x), Kind::Array(y)) => arrays_apart(r, x, y, depth)?,
        (Kind::Object(x), Kind::Object(y)) => objects_apart(r, x, y, depth)?,
        _ => true,
    })
}

fn arrays_apart(r: &mut dyn Resolve, a: &Array, b: &Array, depth: usize) -> Result<bool> {
    if a.max.is_some_and(|m| m < b.min) || b.max.is_some_and(|m| m < a.min) {
        return Ok(true);
    }
    let common = a.min.min((a.prefix.len().max(b.prefix.len()) + 1) as u64) as usize;
    for i in 0..common {
        if nodes_apart(r, a.item(i), b.item(i), depth + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn objects_apart(r: &mut dyn Resolve, a: &Object, b: &Object, depth: usize) -> Result<bool> {
    // A key that the other side demands and that this one never writes.
    let closed = !a.is_open();
    for key in &b.required {
        let named =
            a.props.contains_key(key) || a.required.contains(key) || a.clauses_for(key).next().is_some();
        if (closed && !named) || a.props.get(key).is_some_and(Node::is_never) {
            return Ok(true);
        }
    }
    if a.max.is_some_and(|m| m < b.min) {
        return Ok(true);
    }
    // A key that is always there, with a value that the other side does not take.
    for key in &a.required {
        let (x, y) = (value_of(r, a, key)?, value_of(r, b, key)?);
        if y.is_never() || nodes_apart(r, &x, &y, depth + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Object {
    /// Whether keys that the type does not name are generated: only where it names none at all.
    pub fn is_open(&self) -> bool {
        self.props.is_empty() && self.clauses.is_empty()
    }
}

/// The language of a set of strings, unquoted.
pub(super) fn string_language(s: &Strings) -> RegexAst {
    if let Some(list) = &s.literals {
        return RegexAst::Or(list.iter().map(|l| RegexAst::Literal(l.clone())).collect());
    }
    let mut all = vec![length_language(s.min, s.max)];
    all.extend(s.matching.iter().map(|p| p.ast().clone()));
    all.extend(s.except.iter().map(|p| RegexAst::Not(Box::new(p.ast().clone()))));
    RegexAst::And(all)
}

/// Strings of so many code points.
pub(super) fn length_language(min: u64, max: Option<u64>) -> RegexAst {
    if min == 0 && max.is_none() {
        return RegexAst::Regex(pattern::ANY_STRING.into());
    }
    let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX - 1);
    let any = Box::new(RegexAst::Regex("(?s:.)".into()));
    RegexAst::Repeat(any, clamp(min), max.map_or(u32::MAX, clamp))
}
