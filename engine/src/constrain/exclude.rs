//! Exclusions (`not`, `oneOf`, `if`) turned into unions of plain arms.

use super::algebra::{self, Resolve};
use super::decimal::Decimal;
use super::node::*;
use super::pattern::Pattern;
use crate::error::{Error, Result};
use std::sync::Arc;

/// Arms that one arm may split into.
const MAX_SPLIT: usize = 256;
/// Exclusions within exclusions.
const MAX_DEPTH: usize = 100;

/// The arms of a node that values are generated from, without references or exclusions.
pub(super) fn settled(r: &mut dyn Resolve, node: &Node) -> Result<Vec<Arm>> {
    let mut out = Vec::new();
    for arm in algebra::generated(node) {
        settle(r, arm, &mut out, 0)?;
    }
    Ok(out)
}

fn settle(r: &mut dyn Resolve, arm: Arm, out: &mut Vec<Arm>, depth: usize) -> Result<()> {
    if let Kind::Ref(_) = arm.kind {
        // An excluding reference cannot share its definition's rule; the others never come here.
        let inner = algebra::expand(r, std::slice::from_ref(&arm))?;
        for arm in algebra::generated(&Node::Union(inner)) {
            settle(r, arm, out, depth)?;
        }
        return Ok(());
    }
    let Arm { kind, implied, mut not } = arm;
    let Some(exclusion) = not.pop() else {
        out.push(Arm { kind, implied, not });
        return Ok(());
    };
    let arm = Arm { kind, implied, not };
    if depth > MAX_DEPTH {
        return refuse(&exclusion, "exclusions are nested too deeply");
    }
    if algebra::apart(r, &arm, &exclusion.node, 0)? {
        return settle(r, arm, out, depth + 1);
    }
    for part in subtract(r, vec![arm], &exclusion)? {
        settle(r, part, out, depth + 1)?;
        if out.len() > MAX_SPLIT {
            return refuse(&exclusion, "the branches multiply out beyond the limit");
        }
    }
    Ok(())
}

fn refuse<T>(e: &Exclusion, reason: &str) -> Result<T> {
    Err(Error::ty(&e.at, e.keyword, reason))
}

/// The arms, less all values of the exclusion.
fn subtract(r: &mut dyn Resolve, mut arms: Vec<Arm>, e: &Exclusion) -> Result<Vec<Arm>> {
    let Node::Union(others) = e.node.as_ref() else { return Ok(Vec::new()) };
    for other in algebra::expand(r, others)? {
        let mut left = Vec::new();
        for arm in arms {
            subtract_arm(r, &arm, &other, e, &mut left)?;
            if left.len() > MAX_SPLIT {
                return refuse(e, "the branches multiply out beyond the limit");
            }
        }
        arms = left;
    }
    Ok(arms)
}

/// The values of an arm that are not in another.
fn subtract_arm(
    r: &mut dyn Resolve,
    arm: &Arm,
    other: &Arm,
    e: &Exclusion,
    out: &mut Vec<Arm>,
) -> Result<()> {
    let plain = Arm { kind: other.kind.clone(), implied: false, not: Vec::new() };
    if algebra::apart(r, arm, &Node::Union(vec![plain]), 0)? {
        out.push(arm.clone());
        return Ok(());
    }
    // What the other arm itself excludes stays in.
    for inner in &other.not {
        let kept = algebra::intersect(r, &Node::Union(vec![arm.clone()]), &inner.node)?;
        out.extend(kept.into_arms());
    }
    let mut keep = |kind: Kind| out.push(Arm { kind, implied: arm.implied, not: arm.not.clone() });
    match (&arm.kind, &other.kind) {
        (Kind::Number(a), Kind::Number(b)) => {
            for n in subtract_numbers(a, b) {
                keep(Kind::Number(Arc::new(n)));
            }
        }
        (Kind::String(a), Kind::String(b)) => {
            for s in subtract_strings(a, b) {
                keep(Kind::String(Arc::new(s)));
            }
        }
        (Kind::Array(a), Kind::Array(b)) => {
            for v in subtract_arrays(a, b, e)? {
                keep(Kind::Array(Arc::new(v)));
            }
        }
        (Kind::Object(a), Kind::Object(b)) => {
            for o in subtract_objects(r, a, b, e)? {
                keep(Kind::Object(Arc::new(o)));
            }
        }
        // Null less null, a boolean less itself.
        _ => {}
    }
    Ok(())
}

fn subtract_numbers(a: &Numbers, b: &Numbers) -> Vec<Numbers> {
    if let Some(list) = &a.literals {
        let left: Vec<Decimal> = list.iter().filter(|d| !b.contains(d)).cloned().collect();
        return if left.is_empty() {
            vec![]
        } else {
            vec![Numbers { literals: Some(left), ..Default::default() }]
        };
    }
    if let Some(list) = &b.literals {
        let mut left = a.clone();
        left.except.extend(list.iter().cloned());
        return vec![left];
    }
    let mut out = Vec::new();
    let mut below = |min, max| {
        let side = Numbers { min, max, ..Default::default() };
        out.extend(algebra::numbers(a, &side));
    };
    if let Some(min) = &b.min {
        below(None, Some(Bound { value: min.value.clone(), exclusive: !min.exclusive }));
    }
    if let Some(max) = &b.max {
        below(Some(Bound { value: max.value.clone(), exclusive: !max.exclusive }), None);
    }
    for d in b.except.iter().filter(|d| a.contains(d)) {
        out.push(Numbers { literals: Some(vec![d.clone()]), ..Default::default() });
    }
    let one = b.integer.then(|| Decimal::parse("1")).flatten().filter(|_| !a.integer);
    for step in one.iter().chain(b.multiples.iter().filter(|m| !a.multiples.contains(m))) {
        let other = Numbers { no_multiples: vec![step.clone()], at: b.at.clone(), ..Default::default() };
        out.extend(algebra::numbers(a, &other));
    }
    for step in &b.no_multiples {
        let other = Numbers { multiples: vec![step.clone()], at: b.at.clone(), ..Default::default() };
        out.extend(algebra::numbers(a, &other));
    }
    out
}

fn subtract_strings(a: &Strings, b: &Strings) -> Vec<Strings> {
    if let Some(list) = &a.literals {
        let left: Vec<String> = list.iter().filter(|s| !b.contains(s)).cloned().collect();
        return if left.is_empty() {
            vec![]
        } else {
            vec![Strings { literals: Some(left), ..Default::default() }]
        };
    }
    let mut left = a.clone();
    // One complement says it all.
    let source = format!("{b:?}");
    left.except.push(Pattern::of(source, algebra::string_language(b)));
    vec![left]
}

fn subtract_arrays(a: &Array, b: &Array, e: &Exclusion) -> Result<Vec<Array>> {
    if b.unique {
        return refuse(e, "arrays with equal items cannot be asked for");
    }
    let mut out = Vec::new();
    if b.min > a.min {
        out.push(Array { max: algebra::least(a.max, Some(b.min - 1)), ..a.clone() });
    }
    if let Some(max) = b.max {
        if a.max.is_none_or(|m| m > max) {
            out.push(Array { min: a.min.max(max.saturating_add(1)), ..a.clone() });
        }
    }
    // An item that breaks the rule of its place.
    for (i, item) in b.prefix.iter().enumerate() {
        if matches!(item, Node::Any) || a.max.is_some_and(|m| m <= i as u64) {
            continue;
        }
        let mut prefix: Vec<Node> = (0..a.prefix.len().max(i + 1)).map(|k| a.item(k).clone()).collect();
        let inner = Exclusion { node: Arc::new(item.clone()), ..e.clone() };
        prefix[i] = prefix[i].clone().excluding(inner);
        out.push(Array { prefix, min: a.min.max(i as u64 + 1), ..a.clone() });
    }
    let beyond = b.prefix.len() as u64;
    if !matches!(b.rest, Node::Any) && a.max.is_none_or(|m| m > beyond) {
        let rule = Exclusion { node: Arc::new(b.rest.clone()), ..e.clone() };
        let node = Node::Any.excluding(rule);
        let mut left = a.clone();
        left.contains.push(Contains {
            node,
            from: beyond,
            min: 1,
            max: None,
            at: e.at.clone(),
            keyword: e.keyword,
        });
        left.min = left.min.max(beyond + 1);
        out.push(left);
    }
    // Too few, or too many, of what has to be among the items.
    for c in &b.contains {
        let bounds = [c.min.checked_sub(1).map(|max| (0, Some(max))), c.max.map(|max| (max + 1, None))];
        for (min, max) in bounds.into_iter().flatten() {
            let mut left = a.clone();
            left.contains.push(Contains { min, max, at: e.at.clone(), keyword: e.keyword, ..c.clone() });
            out.push(left);
        }
    }
    Ok(out)
}

fn subtract_objects(r: &mut dyn Resolve, a: &Object, b: &Object, e: &Exclusion) -> Result<Vec<Object>> {
    let mut out = Vec::new();
    for key in b.required.iter().filter(|k| !a.required.contains(*k)) {
        let mut o = a.clone();
        o.props.insert(key.clone(), Node::never());
        out.push(o);
    }
    for (key, node) in b.props.iter().filter(|(_, n)| !matches!(n, Node::Any)) {
        let mine = algebra::value_of(r, a, key)?;
        let inner = Exclusion { node: Arc::new(node.clone()), ..e.clone() };
        let mut o = a.clone();
        o.required.insert(key.clone());
        o.props.insert(key.clone(), mine.excluding(inner));
        out.push(o);
    }
    if b.min > 0 {
        out.push(Object { max: algebra::least(a.max, Some(b.min - 1)), ..a.clone() });
    }
    if let Some(max) = b.max {
        out.push(Object { min: a.min.max(max.saturating_add(1)), ..a.clone() });
    }
    if out.is_empty() && !b.clauses.is_empty() {
        return refuse(e, "objects that break a rule for unnamed keys cannot be enforced");
    }
    Ok(out)
}
