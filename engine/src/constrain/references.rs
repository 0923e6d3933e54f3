//! What the references of a schema come to: cycles, how often one value is validated, and the parts between them.
//!
//! The independent validator follows every reference it meets. Where that multiplies out, the schema is taken apart at its
//! references ([`References::parts`]) and each part is validated once for each value.

use super::dialect;
use super::node::DefId;
use super::pointer;
use crate::error::{Error, Result};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Definitions that one value may be validated against, each as often as it is referred to.
pub(super) const MAX_IN_PLACE: u64 = 100_000;
/// The same of a value and everything in it, where every reference is simply followed.
const MAX_FOLLOWED: u64 = 1_000;
/// References for one value, each inside the one before.
const MAX_CHAIN: usize = 32;

/// References from definition to definition, and how often.
pub(super) type Edges = [BTreeMap<DefId, u64>];

/// References of a schema, resolved.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Pointers of the definitions, by their numbers.
    pub defs: Vec<String>,
    /// Pointers of the schemas that refer, and to which definition.
    pub refs: BTreeMap<String, DefId>,
    /// Whether what stands beside a reference says nothing.
    pub stand_alone: bool,
}

/// What following the references comes to.
pub(super) struct Weights {
    /// A definition that is reached from itself.
    pub cycle: Option<DefId>,
    /// How many definitions are gone through from each, cycles once.
    pub costs: Vec<u64>,
    /// The definitions, those first that others go through.
    pub order: Vec<DefId>,
    /// The longest way, in references.
    pub longest: usize,
}

/// Follows the edges depth first, with a stack of its own: chains of references may be long.
pub(super) fn weigh(edges: &Edges) -> Weights {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; edges.len()];
    let (mut costs, mut lengths) = (vec![1u64; edges.len()], vec![0usize; edges.len()]);
    let (mut cycle, mut order) = (None, Vec::with_capacity(edges.len()));
    for start in 0..edges.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        let mut stack = vec![(start, edges[start].keys())];
        while let Some((node, rest)) = stack.last_mut() {
            match rest.next() {
                Some(&to) if marks[to] == Mark::Open => cycle = cycle.or(Some(to)),
                Some(&to) if marks[to] == Mark::New => {
                    marks[to] = Mark::Open;
                    stack.push((to, edges[to].keys()));
                }
                Some(_) => {}
                None => {
                    marks[*node] = Mark::Done;
                    order.push(*node);
                    let inner = edges[*node].iter().map(|(to, n)| n.saturating_mul(costs[*to]));
                    costs[*node] = inner.fold(1, u64::saturating_add);
                    lengths[*node] = edges[*node].keys().map(|to| lengths[*to] + 1).max().unwrap_or(0);
                    stack.pop();
                }
            }
        }
    }
    Weights { cycle, costs, order, longest: lengths.into_iter().max().unwrap_or(0) }
}

impl References {
    /// Refuses what cannot be followed at all. A value that is defined as itself has no end: `{"$ref": "#"}`. One that
    /// refers to the next ten times, that ten times to the one after it, and so on, is as good as endless.
    ///
    /// Returns whether following every reference of `all` is too much work for values of moderate size.
    pub fn weighed(&self, in_place: &Edges, all: &Edges, evaluates: bool) -> Result<bool> {
        let refused = |def: DefId, reason: String| {
            Err(Error::ty(self.defs.get(def).map_or("", String::as_str), "$ref", reason))
        };
        let here = weigh(in_place);
        if let Some(def) = here.cycle {
            return refused(def, "the schema refers to itself for one and the same value".into());
        }
        let too_many = |w: &Weights| w.order.iter().copied().find(|def| w.costs[*def] > MAX_IN_PLACE);
        if let Some(def) = too_many(&here) {
            return refused(
                def,
                format!("the references multiply out: one value would be validated against more than {MAX_IN_PLACE} schemas"),
            );
        }
        let everywhere = weigh(all);
        let shared = everywhere.cycle.is_some()
            || here.longest > MAX_CHAIN
            || everywhere.costs.iter().any(|cost| *cost > MAX_FOLLOWED);
        // What a part has evaluated is not remembered with whether it is valid.
        if shared && evaluates {
            if let Some(def) = too_many(&everywhere) {
                return refused(
                    def,
                    format!("the references multiply out to more than {MAX_IN_PLACE} schemas, which is not followed where unevaluated properties or items are asked for"),
                );
            }
            if here.longest > MAX_CHAIN {
                return refused(
                    0,
                    format!("more than {MAX_CHAIN} references one after the other are not followed where unevaluated properties or items are asked for"),
                );
            }
        }
        Ok(shared)
    }

    /// The schema taken apart at its definitions: each is a schema of its own, without references but by number.
    ///
    /// # Errors
    /// [`Error::Type`] for a reference to what is no schema where it stands: a constant, or a map of schemas.
    pub fn parts(&self, root: &Value) -> Result<Vec<Value>> {
        let known: BTreeSet<&str> = self.defs.iter().map(String::as_str).collect();
        for at in &self.defs {
            if !is_schema(root, at, &known) {
                return Err(Error::ty(at.as_str(), "$ref", "a reference to what is no schema here"));
            }
        }
        let mut doc = root.clone();
        let mut parts = vec![Value::Null; self.defs.len()];
        // Deepest first, so that every part is taken out of the one around it once.
        let mut places: Vec<(usize, &str, Option<DefId>)> = Vec::new();
        let depth = |at: &str| at.matches('/').count();
        places.extend(self.refs.keys().map(|at| (depth(at), at.as_str(), None)));
        places.extend(self.defs.iter().enumerate().map(|(def, at)| (depth(at), at.as_str(), Some(def))));
        // What refers becomes a reference before it is taken out itself.
        places.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.is_some().cmp(&b.2.is_some())));
        for (_, at, def) in places {
            let Some(place) = doc.pointer_mut(at) else {
                return Err(Error::Internal(format!("there is no schema at {at:?}")));
            };
            match def {
                Some(def) => parts[def] = std::mem::replace(place, part(def)),
                None => self.refer(place, at),
            }
        }
        parts.iter_mut().for_each(without_references);
        Ok(parts)
    }

    /// Turns a reference into one by number.
    fn refer(&self, place: &mut Value, at: &str) {
        let (Some(&def), Value::Object(map)) = (self.refs.get(at), &mut *place) else { return };
        map.shift_remove("$ref");
        match self.stand_alone {
            true => *place = part(def),
            false => drop(map.insert(lean_validate::PART.into(), json!(def))),
        }
    }
}

fn part(def: DefId) -> Value {
    json!({ lean_validate::PART: def })
}

/// Whether what a pointer leads to is a schema, or was nothing at all before a reference said so.
fn is_schema(root: &Value, at: &str, known: &BTreeSet<&str>) -> bool {
    #[derive(PartialEq)]
    enum Here {
        Schema,
        /// A map or a list of schemas.
        Several,
        /// Under a keyword that nobody knows.
        Free,
    }
    let mut here = Here::Schema;
    let mut end = 0;
    while end < at.len() {
        let start = end + 1;
        end = at[start..].find('/').map_or(at.len(), |n| start + n);
        let step = &at[start..end];
        here = match here {
            Here::Several => Here::Schema,
            Here::Free => Here::Free,
            Here::Schema if dialect::MAPS.contains(&step) => Here::Several,
            Here::Schema if !dialect::is_keyword(step) => Here::Free,
            Here::Schema if dialect::APPLIED.contains(&step) => {
                match pointer::get(root, &at[..end]).is_some_and(Value::is_array) {
                    true => Here::Several,
                    false => Here::Schema,
                }
            }
            Here::Schema => return false,
        };
        if here == Here::Free && known.contains(&at[..end]) {
            here = Here::Schema;
        }
    }
    here != Here::Several
}

/// Takes names, definitions and what else only references need out of a part. A reference that was not read stands where
/// no value comes to.
fn without_references(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_references),
        Value::Object(map) => {
            for name in ["$id", "id", "$anchor", "$schema", "$defs", "definitions"] {
                map.shift_remove(name);
            }
            if map.get("$ref").is_some_and(Value::is_string) {
                map.shift_remove("$ref");
                map.insert(lean_validate::PART.into(), json!(lean_validate::UNREAD));
            }
            for (keyword, value) in map.iter_mut() {
                match value {
                    Value::Object(inner) if dialect::MAPS.contains(&keyword.as_str()) => each(inner),
                    value if dialect::APPLIED.contains(&keyword.as_str()) => without_references(value),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn each(map: &mut Map<String, Value>) {
    map.values_mut().for_each(without_references);
}
