//! `unevaluatedProperties` and `unevaluatedItems`: what no other keyword of a schema has spoken of.
//!
//! Every arm stands for one choice of branches, and knows what those have evaluated. A value that further branches
//! would accept too has more evaluated than its arm says, so the values generated are a subset of the valid ones.

use super::algebra::{self, Resolve};
use super::node::*;
use super::read::{Place, Reader};
use crate::error::Result;
use serde_json::{Map, Value};
use std::sync::Arc;

impl<'a> Reader<'a> {
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
            for mut arm in algebra::expand(self, &node.into_arms())? {
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
