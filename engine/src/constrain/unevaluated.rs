//! `unevaluatedProperties` and `unevaluatedItems`: what no other keyword of a schema has spoken of.
//!
//! Every arm stands for one choice of branches, and knows what those have evaluated. Where several branches of an `anyOf`
//! may accept a value at once, there is an arm for each set of them, up to a number of branches. Beyond that a value that
//! further branches accept has more evaluated than its arm says, so the values generated are a subset of the valid ones.

use super::algebra::{self, Resolve};
use super::node::*;
use super::read::{Place, Reader};
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Branches of which every set has an arm of its own; of more, every pair.
const MAX_SETS: usize = 5;
/// Branches of which every pair has one.
const MAX_PAIRS: usize = 30;

/// Whether a schema has one of the keywords, anywhere.
pub(super) fn is_asked(root: &Value) -> bool {
    let mut todo = vec![root];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(map) => {
                if map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems") {
                    return true;
                }
                todo.extend(map.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    false
}

impl<'a> Reader<'a> {
    /// What at least one of some branches accepts.
    pub(super) fn any_of(&mut self, branches: Vec<Node>) -> Result<Node> {
        let n = branches.len();
        if !self.evaluates || n < 2 {
            return Ok(Node::union(branches));
        }
        // One that accepts anything hides no other here.
        let branches: Vec<Node> = branches.into_iter().map(|b| Node::Union(b.into_arms())).collect();
        let mut sets: Vec<Vec<usize>> = Vec::new();
        if n <= MAX_SETS {
            let of = |bits: u32| (0..n).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>();
            sets.extend((1u32..1 << n).map(of).filter(|set| set.len() > 1));
        } else {
            self.crowded = true;
            if n <= MAX_PAIRS {
                sets.extend((0..n).flat_map(|i| (i + 1..n).map(move |j| vec![i, j])));
            }
        }
        let mut all = branches.clone();
        for set in sets {
            let mut node = Node::Any;
            for i in set {
                node = algebra::intersect(self, &node, &branches[i])?;
            }
            all.push(Node::Union(node.into_arms()));
        }
        Ok(Node::union(all))
    }

    /// A schema's node, with these two keywords applied to what all others have left.
    pub(super) fn unevaluated(
        &mut self,
        mut node: Node,
        map: &'a Map<String, Value>,
        place: &Place,
    ) -> Result<Node> {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let Some(schema) = map.get(keyword) else { continue };
            let rest = self.schema(schema, &place.part(keyword))?;
            let by_contains = self.dialect.contains_evaluates();
            let mut arms = Vec::new();
            let before = algebra::expand(self, &node.into_arms())?;
            let any = !before.is_empty();
            for mut arm in before {
                arm.kind = match arm.kind {
                    Kind::Object(o) if keyword == "unevaluatedProperties" => match object(self, &o, &rest)? {
                        Some(o) => Kind::Object(Arc::new(o)),
                        None => continue,
                    },
                    Kind::Array(a) if keyword == "unevaluatedItems" => {
                        match array(self, &a, &rest, by_contains)? {
                            Some(a) => Kind::Array(Arc::new(a)),
                            None => continue,
                        }
                    }
                    other => other,
                };
                arms.push(arm);
            }
            if any && arms.is_empty() && self.crowded {
                let reason = format!(
                    "not supported beside an anyOf of more than {MAX_SETS} branches that hold at once"
                );
                return Err(Error::ty(&place.at, keyword, reason));
            }
            node = Node::Union(arms);
        }
        Ok(node)
    }
}

/// `None` if no object is left.
fn object(r: &mut dyn Resolve, o: &Object, rest: &Node) -> Result<Option<Object>> {
    let mut o = o.clone();
    let seen = std::mem::replace(&mut o.evaluated, Evaluated { all: true, ..Default::default() });
    if seen.all || matches!(rest, Node::Any) {
        return Ok(Some(o));
    }
    let keys = Keys { all: Vec::new(), none: seen.patterns, names: seen.names.into_iter().collect() };
    for (key, node) in &mut o.props {
        if keys.contains(key) {
            *node = algebra::intersect(r, node, rest)?;
            if node.is_never() && o.required.contains(key) {
                return Ok(None);
            }
        }
    }
    let missing = |key: &String| !o.props.contains_key(key) && keys.contains(key);
    if rest.is_never() && o.required.iter().any(missing) {
        return Ok(None);
    }
    o.clauses.push(Clause { keys, node: rest.clone() });
    Ok(Some(o))
}

/// `None` if no array is left.
fn array(r: &mut dyn Resolve, a: &Array, rest: &Node, by_contains: bool) -> Result<Option<Array>> {
    let mut a = a.clone();
    let seen = std::mem::replace(&mut a.evaluated, usize::MAX);
    if seen == usize::MAX || matches!(rest, Node::Any) {
        return Ok(Some(a));
    }
    let found = a.contains.iter().filter(|_| by_contains).map(|c| c.node.clone());
    let allowed = Node::union(found.chain([rest.clone()]));
    while a.prefix.len() < seen {
        a.prefix.push(a.rest.clone());
    }
    for i in seen..a.prefix.len() {
        a.prefix[i] = algebra::intersect(r, &a.prefix[i], &allowed)?;
        if a.prefix[i].is_never() {
            a.prefix.truncate(i);
            a.max = algebra::least(a.max, Some(i as u64));
            break;
        }
    }
    a.rest = algebra::intersect(r, &a.rest, &allowed)?;
    if a.rest.is_never() {
        a.max = algebra::least(a.max, Some(a.prefix.len() as u64));
    }
    Ok(a.max.is_none_or(|m| a.min <= m).then_some(a))
}
