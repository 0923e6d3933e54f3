//! The intermediate form of a JSON type: a union of arms, one kind of value each.
//!
//! Both front ends (JSON Schema, type expressions) end here, and the grammar is made from here. The form is
//! exact: it says what validates, not what is generated. What generation leaves out (values of kinds that the
//! schema never mentions, properties that it never names) is decided in [`super::emit`].

use super::decimal::Decimal;
use super::pattern::Pattern;
use indexmap::{IndexMap, IndexSet};
use std::sync::Arc;

/// Index of a `$ref` target.
pub(super) type DefId = usize;

/// A set of JSON values.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Every value.
    Any,
    /// Values of any arm; nothing at all if there is none.
    Union(Vec<Arm>),
}

/// Values of one kind, less those of `not`.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    pub kind: Kind,
    /// Whether the schema allows this kind only by never speaking of it.
    pub implied: bool,
    /// Values must be in none of these (`not`, and the other branches of a `oneOf`).
    pub not: Vec<Exclusion>,
}

/// A set that an arm excludes, and who says so.
#[derive(Debug, Clone)]
pub(super) struct Exclusion {
    pub node: Arc<Node>,
    /// JSON pointer of the keyword.
    pub at: Arc<str>,
    pub keyword: &'static str,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Arc<Numbers>),
    String(Arc<Strings>),
    Array(Arc<Array>),
    Object(Arc<Object>),
    /// A definition, resolved only where needed: definitions may be recursive.
    Ref(DefId),
}

/// Numbers within bounds, or a list of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    /// If present, exactly these; the other fields are already applied.
    pub literals: Option<Vec<Decimal>>,
    pub integer: bool,
    pub min: Option<Bound>,
    pub max: Option<Bound>,
    pub multiples: Vec<Decimal>,
    /// Steps of which the number is no multiple.
    pub no_multiples: Vec<Decimal>,
    /// Numbers left out.
    pub except: Vec<Decimal>,
    /// JSON pointer of the schema that bounds them.
    pub at: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    pub value: Decimal,
    pub exclusive: bool,
}

/// Strings by length in code points and by what they match, or a list of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    /// If present, exactly these; the other fields are already applied.
    pub literals: Option<Vec<String>>,
    pub min: u64,
    pub max: Option<u64>,
    /// All of these match the whole string.
    pub matching: Vec<Pattern>,
    /// None of these does.
    pub except: Vec<Pattern>,
}

#[derive(Debug, Clone)]
pub(super) struct Array {
    /// JSON pointer of the schema that it comes from.
    pub at: Arc<str>,
    pub prefix: Vec<Node>,
    pub rest: Node,
    pub min: u64,
    pub max: Option<u64>,
    /// What must be among the items.
    pub contains: Vec<Contains>,
    /// Whether no two items are equal.
    pub unique: bool,
    /// How many items from the first on the schema has evaluated; [`usize::MAX`] is all.
    pub evaluated: usize,
}

/// So many items, from the index `from` on, are values of a node.
#[derive(Debug, Clone)]
pub(super) struct Contains {
    pub node: Node,
    pub from: u64,
    pub min: u64,
    pub max: Option<u64>,
    /// JSON pointer of the schema that says so, and the keyword.
    pub at: Arc<str>,
    pub keyword: &'static str,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Object {
    /// JSON pointer of the schema that it comes from.
    pub at: Arc<str>,
    /// Named properties in declared order, each with everything that applies to it.
    pub props: IndexMap<String, Node>,
    pub required: IndexSet<String>,
    /// What applies to keys that are not in `props`; every clause whose keys contain a key applies to it.
    pub clauses: Vec<Clause>,
    pub min: u64,
    pub max: Option<u64>,
    pub evaluated: Evaluated,
}

/// The keys that a schema has evaluated, for `unevaluatedProperties`.
#[derive(Debug, Clone, Default)]
pub(super) struct Evaluated {
    pub all: bool,
    pub names: IndexSet<String>,
    pub patterns: Vec<Pattern>,
}

impl Evaluated {
    /// What either of two schemas for the same value has evaluated.
    pub fn or(&self, other: &Evaluated) -> Evaluated {
        Evaluated {
            all: self.all || other.all,
            names: self.names.union(&other.names).cloned().collect(),
            patterns: self.patterns.iter().chain(&other.patterns).cloned().collect(),
        }
    }
}

/// A rule for the values of a set of keys.
#[derive(Debug, Clone)]
pub(super) struct Clause {
    pub keys: Keys,
    pub node: Node,
}

/// Keys that match all of `all`, none of `none`, and are not in `names`.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    pub all: Vec<Pattern>,
    pub none: Vec<Pattern>,
    pub names: Vec<String>,
}

impl Keys {
    pub fn contains(&self, key: &str) -> bool {
        !self.names.iter().any(|n| n == key)
            && self.all.iter().all(|p| p.matches(key))
            && !self.none.iter().any(|p| p.matches(key))
    }
}

impl Object {
    /// Everything that applies to the value of a key, without intersecting it.
    pub fn clauses_for<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Node> {
        self.clauses.iter().filter(move |c| c.keys.contains(key)).map(|c| &c.node)
    }
}

impl Array {
    /// Items by place and number alone.
    pub fn of(at: Arc<str>, prefix: Vec<Node>, rest: Node, min: u64, max: Option<u64>) -> Self {
        Array { at, prefix, rest, min, max, contains: Vec::new(), unique: false, evaluated: 0 }
    }

    pub fn item(&self, index: usize) -> &Node {
        self.prefix.get(index).unwrap_or(&self.rest)
    }
}

impl Strings {
    /// Whether a string is in the set.
    pub fn contains(&self, s: &str) -> bool {
        if let Some(list) = &self.literals {
            return list.iter().any(|l| l == s);
        }
        let n = s.chars().count() as u64;
        n >= self.min
            && self.max.is_none_or(|max| n <= max)
            && self.matching.iter().all(|p| p.matches(s))
            && !self.except.iter().any(|p| p.matches(s))
    }
}

impl Numbers {
    /// Whether a number is in the set.
    pub fn contains(&self, n: &Decimal) -> bool {
        if let Some(list) = &self.literals {
            return list.contains(n);
        }
        (!self.integer || n.is_integer())
            && self.min.as_ref().is_none_or(|b| if b.exclusive { *n > b.value } else { *n >= b.value })
            && self.max.as_ref().is_none_or(|b| if b.exclusive { *n < b.value } else { *n <= b.value })
            && self.multiples.iter().all(|m| n.is_multiple_of(m))
            && !self.no_multiples.iter().any(|m| n.is_multiple_of(m))
            && !self.except.contains(n)
    }
}

impl Arm {
    pub fn new(kind: Kind) -> Self {
        Arm { kind, implied: false, not: Vec::new() }
    }
}

impl Node {
    pub fn never() -> Self {
        Node::Union(Vec::new())
    }

    pub fn is_never(&self) -> bool {
        matches!(self, Node::Union(arms) if arms.is_empty())
    }

    pub fn one(kind: Kind) -> Self {
        Node::Union(vec![Arm::new(kind)])
    }

    /// Every value, as arms.
    pub fn all_kinds() -> Vec<Arm> {
        let any_array = Array::of(Arc::default(), Vec::new(), Node::Any, 0, None);
        [
            Kind::Null,
            Kind::Bool(false),
            Kind::Bool(true),
            Kind::Number(Arc::default()),
            Kind::String(Arc::default()),
            Kind::Array(Arc::new(any_array)),
            Kind::Object(Arc::default()),
        ]
        .into_iter()
        .map(|kind| Arm { kind, implied: true, not: Vec::new() })
        .collect()
    }

    /// The arms of the node; `Any` has all kinds, each implied.
    pub fn into_arms(self) -> Vec<Arm> {
        match self {
            Node::Any => Node::all_kinds(),
            Node::Union(arms) => arms,
        }
    }

    /// Values of any of the nodes.
    pub fn union(nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut arms = Vec::new();
        for node in nodes {
            match node {
                Node::Any => return Node::Any,
                Node::Union(more) => arms.extend(more),
            }
        }
        Node::Union(arms)
    }

    /// The same values, less those of another node.
    pub fn excluding(self, exclusion: Exclusion) -> Self {
        let mut arms = self.into_arms();
        for arm in &mut arms {
            arm.not.push(exclusion.clone());
        }
        Node::Union(arms)
    }
}
