//! Nodes into what is generated: no exclusions, no empty sets, closed objects.

use super::algebra::{self, Resolve};
use super::exclude;
use super::node::*;
use super::pattern::{self, Pattern};
use super::read::Graph;
use super::spelled::spelled;
use super::{nothing, stop};
use crate::error::{Error, Result};
use llguidance::derivre::{JsonQuoteOptions, RegexAst, RegexBuilder};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Rules for unnamed keys that may overlap.
const MAX_CLAUSES: usize = 6;
/// Rules of what to contain, for one array.
const MAX_COUNTS: usize = 4;
/// Names of a rule for unnamed keys that are written out, and the search for them.
const MAX_FEW_KEYS: usize = 64;
const MAX_KEY_STATES: usize = 2000;
const KEY_FUEL: u64 = 50_000;
/// Nesting of one definition's values.
const MAX_DEPTH: usize = 128;

/// A union of generated values.
#[derive(Debug, Clone, Default)]
pub(super) struct Low {
    /// Every value.
    pub any: bool,
    /// Scalars, all in one regular expression over their JSON text.
    pub scalar: Option<RegexAst>,
    pub arrays: Vec<LowArray>,
    pub objects: Vec<LowObject>,
    pub refs: Vec<DefId>,
    /// Texts of parts that follow each other; only around the values of tools, and no part is empty.
    pub seqs: Vec<Vec<Low>>,
}

impl Low {
    /// Whether there is no alternative at all.
    fn is_nothing(&self) -> bool {
        let Low { any, scalar, arrays, objects, refs, seqs } = self;
        !any && scalar.is_none()
            && arrays.is_empty()
            && objects.is_empty()
            && refs.is_empty()
            && seqs.is_empty()
    }
}

#[derive(Debug, Clone)]
pub(super) struct LowArray {
    /// JSON pointer of the schema that it comes from.
    pub at: Arc<str>,
    pub prefix: Vec<Low>,
    pub rest: Low,
    pub min: u64,
    pub max: Option<u64>,
    /// What is counted among the items; empty for most arrays.
    pub counts: Vec<Count>,
    /// Where something is counted, the kinds of items by what they count for; a value may be of several.
    pub classes: Vec<Class>,
    /// Whether no two items are equal.
    pub unique: bool,
}

/// So many of the items count.
#[derive(Debug, Clone)]
pub(super) struct Count {
    pub min: u64,
    pub max: Option<u64>,
    /// Which keyword says so.
    pub keyword: &'static str,
}

/// Items that count for some of an array's counts.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// A bit for each count.
    pub counts_for: u32,
    /// Index of the first such item.
    pub from: u64,
    pub prefix: Vec<Low>,
    pub rest: Low,
}

#[derive(Debug, Clone)]
pub(super) struct LowObject {
    /// JSON pointer of the schema that it comes from.
    pub at: Arc<str>,
    pub fields: Vec<Field>,
    /// Unnamed keys, each with the language of its quoted text; disjoint from each other and from the fields.
    pub rest: Vec<(RegexAst, Low)>,
    pub min: u64,
    pub max: Option<u64>,
    /// Written as the arguments of a call in Python: `(a=1,b=2)`.
    pub arguments: bool,
}

/// `null`, `true` and `false` as JSON writes them, and as Python does.
pub(super) const JSON_WORDS: &str = "null|true|false";
pub(super) const PYTHON_WORDS: &str = "None|True|False";

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub key: String,
    pub value: Low,
    pub required: bool,
}

impl Field {
    /// What is written before the value.
    pub fn text(&self, argument: bool) -> String {
        match argument {
            true => format!("{}=", self.key),
            false => format!("{}:", super::json_text(&self.key)),
        }
    }
}

/// What is generated of a schema.
pub(super) struct Lowered {
    pub defs: Vec<Low>,
    /// Alternatives that are valid, but of which nothing is ever generated.
    left_out: Vec<Error>,
}

impl Lowered {
    /// The warnings with those about alternatives that are left out.
    pub fn warnings(&self, mut warnings: Vec<String>) -> Vec<String> {
        for e in &self.left_out {
            if let Error::Type { at, reason, .. } = e {
                let at = if at.is_empty() { "#" } else { at };
                let text = format!("{at}: {reason}; this alternative is left out");
                if !warnings.contains(&text) {
                    warnings.push(text);
                }
            }
        }
        warnings
    }

    /// An error of a type without values, blamed on what was left out, or on the smallest part that has none.
    pub fn blamed(&self, e: Error, schema: &Value) -> Error {
        match (&e, self.left_out.first()) {
            (Error::Type { reason, .. }, Some(left_out)) if reason == nothing::NO_VALUE => left_out.clone(),
            _ => nothing::explained(e, schema),
        }
    }
}

/// Lowers every definition.
pub(super) fn lower(graph: &Graph, words: &'static str) -> Result<Lowered> {
    let mut lowering = Lowering {
        defs: &graph.defs,
        steps: graph.steps,
        depth: 0,
        at: Arc::default(),
        words,
        empty: HashMap::new(),
        left_out: Vec::new(),
    };
    let defs = graph.defs.iter().map(|node| lowering.node(node)).collect::<Result<_>>()?;
    Ok(Lowered { defs, left_out: lowering.left_out })
}

/// Whether some array must not have equal items.
pub(super) fn has_unique(lows: &[Low]) -> bool {
    lows.iter().any(|low| {
        let in_array = |a: &LowArray| {
            let classes = a.classes.iter().flat_map(|c| c.prefix.iter().chain([&c.rest]));
            a.unique
                || a.prefix
                    .iter()
                    .chain([&a.rest])
                    .chain(classes)
                    .any(|l| has_unique(std::slice::from_ref(l)))
        };
        let in_object = |o: &LowObject| {
            let values = o.fields.iter().map(|f| &f.value).chain(o.rest.iter().map(|(_, v)| v));
            values.into_iter().any(|l| has_unique(std::slice::from_ref(l)))
        };
        low.arrays.iter().any(in_array)
            || low.objects.iter().any(in_object)
            || low.seqs.iter().any(|parts| has_unique(parts))
    })
}

struct Lowering<'a> {
    defs: &'a [Node],
    steps: usize,
    depth: usize,
    /// JSON pointer of the array or object that is being lowered.
    at: Arc<str>,
    /// How `null`, `true` and `false` are written.
    words: &'static str,
    /// Whether languages that were looked at have no string.
    empty: HashMap<String, Option<bool>>,
    left_out: Vec<Error>,
}

impl Resolve for Lowering<'_> {
    fn resolve(&mut self, def: DefId) -> Result<Node> {
        Ok(self.defs[def].clone())
    }
    fn steps(&mut self) -> &mut usize {
        &mut self.steps
    }
    fn at(&self) -> String {
        self.at.to_string()
    }
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) -> Result<Low> {
        stop::check()?;
        let mut low = Low::default();
        let left_out = self.left_out.len();
        let Node::Union(_) = node else {
            low.any = true;
            return Ok(low);
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::ty(self.at(), "schema", format!("values are nested deeper than {MAX_DEPTH}")));
        }
        let (plain, excluding): (Vec<Arm>, Vec<Arm>) =
            algebra::generated(node).into_iter().partition(|a| a.not.is_empty());
        let mut scalars = Vec::new();
        for arm in plain {
            match arm.kind {
                Kind::Ref(def) => low.refs.push(def),
                kind => self.kind(&kind, &mut scalars, &mut low)?,
            }
        }
        if !excluding.is_empty() {
            for arm in exclude::settled(self, &Node::Union(excluding))? {
                self.kind(&arm.kind, &mut scalars, &mut low)?;
            }
        }
        low.scalar = match scalars.len() {
            0 => None,
            1 => scalars.pop(),
            _ => Some(RegexAst::Or(scalars)),
        };
        self.depth -= 1;
        match self.left_out.get(left_out) {
            // Nothing else is left of it.
            Some(e) if low.is_nothing() => Err(e.clone()),
            _ => Ok(low),
        }
    }

    fn kind(&mut self, kind: &Kind, scalars: &mut Vec<RegexAst>, low: &mut Low) -> Result<()> {
        match kind {
            Kind::Null => scalars.push(self.word(0)),
            Kind::Bool(b) => scalars.push(self.word(if *b { 1 } else { 2 })),
            Kind::Number(n) => {
                let at = n.at.as_deref().unwrap_or(&self.at);
                match super::numbers::language(n) {
                    Ok(ast) => scalars.extend(self.non_empty(ast, "a number")?),
                    Err(reason) => {
                        let e = Error::ty(at, "minimum, maximum, multipleOf", reason);
                        // What remains beside other alternatives is not one of its own.
                        if !n.no_multiples.is_empty() {
                            return Err(e);
                        }
                        self.left_out.push(e);
                    }
                }
            }
            Kind::String(s) => scalars.extend(self.non_empty(quoted(s), "a string")?),
            Kind::Array(a) => {
                let outer = std::mem::replace(&mut self.at, a.at.clone());
                let array = self.array(a)?;
                self.at = outer;
                low.arrays.push(array);
            }
            Kind::Object(o) => {
                let outer = std::mem::replace(&mut self.at, o.at.clone());
                low.objects.extend(self.object(o)?);
                self.at = outer;
            }
            Kind::Ref(def) => low.refs.push(*def),
        }
        Ok(())
    }

    fn word(&self, index: usize) -> RegexAst {
        RegexAst::Literal(self.words.split('|').nth(index).unwrap_or_default().to_string())
    }

    fn array(&mut self, a: &Array) -> Result<LowArray> {
        let prefix = a.prefix.iter().map(|n| self.node(n)).collect::<Result<_>>()?;
        let rest = self.node(&a.rest)?;
        let count = |c: &Contains| Count { min: c.min, max: c.max, keyword: c.keyword };
        let counts = a.contains.iter().map(count).collect();
        let classes = self.classes(a)?;
        Ok(LowArray {
            at: a.at.clone(),
            prefix,
            rest,
            min: a.min,
            max: a.max,
            counts,
            classes,
            unique: a.unique,
        })
    }

    /// Items by which of the array's counts they are taken for. Where a count has no upper bound, an item that is not
    /// taken for it may still match: the count is then merely exceeded.
    fn classes(&mut self, a: &Array) -> Result<Vec<Class>> {
        let n = a.contains.len();
        if n > MAX_COUNTS {
            let reason = format!("more than {MAX_COUNTS} rules of what to contain apply to one array");
            return Err(Error::ty(self.at(), "contains", reason));
        }
        let mut classes = Vec::new();
        for subset in 0u32..(1 << n) * u32::from(n > 0) {
            let inside = |i: usize| subset >> i & 1 == 1;
            let from = a.contains.iter().enumerate().filter(|(i, _)| inside(*i)).map(|(_, c)| c.from).max();
            let mut item = |node: &Node, at: u64| -> Result<Low> {
                let mut node = node.clone();
                for (i, c) in a.contains.iter().enumerate() {
                    if inside(i) {
                        node = algebra::intersect(self, &node, &c.node)?;
                    } else if c.max.is_some() && at >= c.from {
                        let (at, keyword) = (c.at.clone(), c.keyword);
                        node = node.excluding(Exclusion { node: Arc::new(c.node.clone()), at, keyword });
                    }
                }
                self.node(&node)
            };
            let prefix = a.prefix.iter().zip(0..).map(|(node, at)| item(node, at)).collect::<Result<_>>()?;
            let rest = item(&a.rest, u64::MAX)?;
            classes.push(Class { counts_for: subset, from: from.unwrap_or(0), prefix, rest });
        }
        Ok(classes)
    }

    /// `None` if a required property has no value.
    fn object(&mut self, o: &Object) -> Result<Option<LowObject>> {
        let mut fields = Vec::new();
        let unnamed = o.required.iter().filter(|k| !o.props.contains_key(*k));
        for key in o.props.keys().chain(unnamed) {
            let required = o.required.contains(key);
            let node = algebra::value_of(self, o, key)?;
            if node.is_never() {
                if required {
                    return Ok(None);
                }
                continue;
            }
            fields.push(Field { key: key.clone(), value: self.node(&node)?, required });
        }
        let mut rest = Vec::new();
        let taken: Vec<&String> = o.props.keys().chain(&o.required).collect();
        for (keys, node) in self.regions(o)? {
            let Some(key) = self.non_empty(key_language(&keys, &taken), "a property name")? else { continue };
            let value = self.node(&node)?;
            // A few possible names are optional properties: each comes once at most, and none runs out.
            match few_keys(&key) {
                Some(names) => {
                    fields.extend(names.into_iter().map(|key| Field {
                        key,
                        value: value.clone(),
                        required: false,
                    }));
                }
                None => rest.push((key, value)),
            }
        }
        Ok(Some(LowObject { at: o.at.clone(), fields, rest, min: o.min, max: o.max, arguments: false }))
    }

    /// Unnamed keys, split by which clauses speak of them. Keys of which none speaks are not generated, unless
    /// the type names no key at all.
    fn regions(&mut self, o: &Object) -> Result<Vec<(Vec<(Keys, bool)>, Node)>> {
        if o.is_open() {
            return Ok(vec![(Vec::new(), Node::Any)]);
        }
        if o.clauses.len() > MAX_CLAUSES {
            let reason = format!("more than {MAX_CLAUSES} rules for unnamed keys apply to one object");
            return Err(Error::ty(self.at(), "patternProperties", reason));
        }
        let mut regions = Vec::new();
        for subset in 1u32..1 << o.clauses.len() {
            let mut node = Node::Any;
            let mut keys = Vec::new();
            for (i, clause) in o.clauses.iter().enumerate() {
                let inside = subset >> i & 1 == 1;
                keys.push((clause.keys.clone(), inside));
                if inside {
                    node = algebra::intersect(self, &node, &clause.node)?;
                }
            }
            if !node.is_never() {
                regions.push((keys, node));
            }
        }
        Ok(regions)
    }

    /// The language itself, unless it has no string.
    fn non_empty(&mut self, ast: RegexAst, what: &str) -> Result<Option<RegexAst>> {
        let empty = match spelled(&ast) {
            Some(text) => *self.empty.entry(text).or_insert_with(|| pattern::is_empty(&ast)),
            None => pattern::is_empty(&ast),
        };
        match empty {
            Some(true) => Ok(None),
            Some(false) => Ok(Some(ast)),
            None => Err(Error::ty(
                self.at(),
                "pattern",
                format!("whether {what} can satisfy the rules takes too long to find out"),
            )),
        }
    }
}

/// The language of the JSON text of strings.
pub(super) fn quote(ast: RegexAst) -> RegexAst {
    RegexAst::JsonQuote(Box::new(ast), JsonQuoteOptions::regular())
}

fn any_string() -> RegexAst {
    RegexAst::Regex(pattern::ANY_STRING.into())
}

fn not(ast: RegexAst) -> RegexAst {
    RegexAst::Not(Box::new(ast))
}

fn quoted(s: &Strings) -> RegexAst {
    if let Some(list) = &s.literals {
        return RegexAst::Or(list.iter().map(|l| RegexAst::Literal(super::json_text(l))).collect());
    }
    let positive = Strings { except: Vec::new(), ..s.clone() };
    let mut all = vec![quote(algebra::string_language(&positive))];
    all.extend(s.except.iter().map(|p| not(quote_pattern(p))));
    if all.len() == 1 {
        all.remove(0)
    } else {
        RegexAst::And(all)
    }
}

/// A pattern's complement may be among its parts, and the complement of a quoted text is not quoted text.
fn quote_pattern(p: &Pattern) -> RegexAst {
    quote(RegexAst::And(vec![any_string(), p.ast().clone()]))
}

fn key_language(keys: &[(Keys, bool)], taken: &[&String]) -> RegexAst {
    let mut all = vec![quote(any_string())];
    for (keys, inside) in keys {
        let mut inner: Vec<RegexAst> = keys.all.iter().map(quote_pattern).collect();
        inner.extend(keys.none.iter().map(|p| not(quote_pattern(p))));
        if !keys.names.is_empty() {
            inner.push(not(names(keys.names.iter())));
        }
        match (inside, inner.is_empty()) {
            (true, true) => {}
            (true, false) => all.extend(inner),
            (false, true) => all.push(RegexAst::NoMatch),
            (false, false) => all.push(not(RegexAst::And(inner))),
        }
    }
    if !taken.is_empty() {
        all.push(not(names(taken.iter().copied())));
    }
    if all.len() == 1 {
        all.remove(0)
    } else {
        RegexAst::And(all)
    }
}

/// All keys of a language, if they are few.
fn few_keys(key: &RegexAst) -> Option<Vec<String>> {
    let mut builder = RegexBuilder::new();
    let expr = builder.mk(key).ok()?;
    let mut regex = builder.to_regex_limited(expr, KEY_FUEL).ok()?;
    let mut found: Vec<String> = Vec::new();
    let mut todo = vec![(regex.initial_state(), Vec::new())];
    for _ in 0..MAX_KEY_STATES {
        let Some((state, text)) = todo.pop() else { return Some(found) };
        if regex.is_accepting(state) {
            let name: String = serde_json::from_slice(&text).ok()?;
            if !found.contains(&name) {
                found.push(name);
            }
        }
        for byte in (0..=255u8).rev() {
            let next = regex.transition(state, byte);
            if !next.is_dead() {
                todo.push((next, [text.as_slice(), &[byte]].concat()));
            }
        }
        if todo.len() > MAX_FEW_KEYS || found.len() > MAX_FEW_KEYS {
            return None;
        }
    }
    None
}

fn names<'a>(list: impl Iterator<Item = &'a String>) -> RegexAst {
    // Quoted by the engine, so that every spelling of a name counts as the name.
    RegexAst::Or(list.map(|n| quote(RegexAst::Literal(n.clone()))).collect())
}
