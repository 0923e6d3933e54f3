//! JSON Schema (2020-12, and the keywords of older drafts as they are met in the wild) into nodes.

use super::algebra::{self, Resolve};
use super::decimal::Decimal;
use super::dialect::{self, Dialect};
use super::exact;
use super::node::*;
use super::pointer;
use super::references::References;
use super::stop;
use super::unevaluated;
use crate::error::{Error, Result};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Definitions of one schema.
const MAX_DEFS: usize = 4000;
/// Bytes of one constant string or property name: the matcher has a state for every byte.
pub(super) const MAX_LITERAL: usize = 16 << 10;

/// A schema, read.
pub(super) struct Graph {
    /// Definition 0 is the schema itself.
    pub defs: Vec<Node>,
    pub warnings: Vec<String>,
    pub steps: usize,
    pub follow: Follow,
}

/// How the final validation follows references.
pub(super) enum Follow {
    /// Each as often as it is met.
    Each,
    /// The same, where that may be too often to say where a value is not valid.
    Blindly,
    /// Each once for each value.
    Once(References),
}

/// Where a subschema is.
#[derive(Clone)]
pub(super) struct Place {
    /// JSON pointer from the root of the document.
    pub at: String,
    /// JSON pointer of the resource that `#` means here.
    base: String,
    /// The definition whose values these are, until a keyword steps into a part of the value.
    owner: Option<DefId>,
    /// The definition that it belongs to.
    def: DefId,
}

impl Place {
    /// A subschema for the same value.
    pub fn same(&self, keyword: &str) -> Place {
        Place { at: format!("{}/{}", self.at, pointer::escape(keyword)), ..self.clone() }
    }

    /// A subschema for a part of the value.
    pub fn part(&self, keyword: &str) -> Place {
        Place { owner: None, ..self.same(keyword) }
    }
}

pub(super) struct Reader<'a> {
    root: &'a Value,
    pub dialect: Dialect,
    /// Pointers by `$id` and by `base#anchor`.
    anchors: HashMap<String, String>,
    defs: Vec<Def>,
    by_pointer: HashMap<String, DefId>,
    /// In-place references: definition to definition, of the same value, and how often.
    edges: Vec<BTreeMap<DefId, u64>>,
    /// References of every kind: definition to definition, and how often.
    all_edges: Vec<BTreeMap<DefId, u64>>,
    refs: BTreeMap<String, DefId>,
    warnings: Vec<String>,
    steps: usize,
    reading: String,
    /// Whether the schema asks somewhere what was not evaluated.
    pub evaluates: bool,
    /// Whether branches that may hold together were too many for that.
    pub crowded: bool,
}

enum Def {
    Unread(String),
    Reading,
    Read(Node),
}

/// Reads a schema and everything it refers to.
pub(super) fn read(root: &Value) -> Result<Graph> {
    read_at(root, String::new())
}

/// The same of the part of a schema at a pointer.
pub(super) fn read_at(root: &Value, at: String) -> Result<Graph> {
    dialect::check_size(root)?;
    let dialect = dialect::detect(root);
    let mut reader = Reader {
        root,
        dialect,
        anchors: dialect::anchors(root, dialect),
        defs: Vec::new(),
        by_pointer: HashMap::new(),
        edges: Vec::new(),
        all_edges: Vec::new(),
        refs: BTreeMap::new(),
        warnings: Vec::new(),
        steps: 0,
        reading: String::new(),
        evaluates: unevaluated::is_asked(root),
        crowded: false,
    };
    reader.define(at)?;
    let mut next = 0;
    while next < reader.defs.len() {
        reader.resolve(next)?;
        next += 1;
    }
    let references = reader.references();
    let multiplies = references.weighed(&reader.edges, &reader.all_edges, reader.evaluates)?;
    let follow = match (multiplies, reader.evaluates) {
        (false, _) => Follow::Each,
        (true, true) => Follow::Blindly,
        (true, false) => Follow::Once(references),
    };
    let defs =
        reader.defs.into_iter().filter_map(|d| if let Def::Read(n) = d { Some(n) } else { None }).collect();
    Ok(Graph { defs, warnings: reader.warnings, steps: reader.steps, follow })
}

impl Resolve for Reader<'_> {
    fn resolve(&mut self, def: DefId) -> Result<Node> {
        match &self.defs[def] {
            Def::Read(node) => Ok(node.clone()),
            Def::Reading => Err(Error::ty(
                self.reading.as_str(),
                "$ref",
                "a definition is composed with itself while it is being defined",
            )),
            Def::Unread(at) => {
                let at = at.clone();
                let Some(schema) = pointer::get(self.root, &at) else {
                    return Err(Error::ty(at, "$ref", "there is no such schema"));
                };
                self.defs[def] = Def::Reading;
                let place =
                    Place { base: dialect::base_of(self.root, &at, self.dialect), at, owner: Some(def), def };
                let node = self.schema(schema, &place)?;
                self.defs[def] = Def::Read(node.clone());
                Ok(node)
            }
        }
    }

    fn steps(&mut self) -> &mut usize {
        &mut self.steps
    }

    fn at(&self) -> String {
        self.reading.clone()
    }
}

impl<'a> Reader<'a> {
    fn references(&mut self) -> References {
        let mut defs = vec![String::new(); self.defs.len()];
        for (at, &def) in &self.by_pointer {
            defs[def].clone_from(at);
        }
        let refs = std::mem::take(&mut self.refs);
        References { defs, refs, stand_alone: self.dialect.ref_stands_alone() }
    }

    fn define(&mut self, at: String) -> Result<DefId> {
        if let Some(&id) = self.by_pointer.get(&at) {
            return Ok(id);
        }
        if self.defs.len() >= MAX_DEFS {
            return Err(Error::ty(at, "$ref", format!("more than {MAX_DEFS} definitions")));
        }
        let id = self.defs.len();
        self.by_pointer.insert(at.clone(), id);
        self.defs.push(Def::Unread(at));
        self.edges.push(BTreeMap::new());
        self.all_edges.push(BTreeMap::new());
        Ok(id)
    }

    pub fn warn(&mut self, place: &Place, what: String) {
        let at = if place.at.is_empty() { "#" } else { &place.at };
        let text = format!("{at}: {what}");
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// The node of a subschema.
    pub fn schema(&mut self, schema: &'a Value, place: &Place) -> Result<Node> {
        stop::check()?;
        self.reading.clone_from(&place.at);
        let map = match schema {
            Value::Bool(true) => return Ok(Node::Any),
            Value::Bool(false) => return Ok(Node::never()),
            Value::Object(map) => map,
            _ => return Err(Error::ty(&place.at, "schema", "a schema is an object or a boolean")),
        };
        let mut place = place.clone();
        if dialect::opens_resource(map, self.dialect) {
            place.base.clone_from(&place.at);
        }
        if self.dialect.ref_stands_alone() && map.contains_key("$ref") {
            for keyword in map.keys().filter(|k| *k != "$ref" && !dialect::is_annotation(k)) {
                self.warn(&place, format!("{keyword:?} says nothing beside $ref in this draft"));
            }
            return self.reference(map, &place);
        }
        let mut node = Node::Any;
        let mut base_done = false;
        for (keyword, value) in map {
            let part = if dialect::constrains_kind(keyword) {
                if std::mem::replace(&mut base_done, true) {
                    continue;
                }
                self.kinds(map, &place)?
            } else {
                match self.applicator(keyword, value, map, &place)? {
                    Some(part) => part,
                    None => continue,
                }
            };
            self.reading.clone_from(&place.at);
            node = algebra::intersect(self, &node, &part)?;
        }
        self.unevaluated(node, map, &place)
    }

    /// A keyword that says something about the whole value through other schemas, or nothing at all.
    fn applicator(
        &mut self,
        keyword: &str,
        value: &'a Value,
        map: &'a Map<String, Value>,
        place: &Place,
    ) -> Result<Option<Node>> {
        Ok(Some(match keyword {
            "$ref" => self.reference(map, place)?,
            "enum" => {
                let Value::Array(values) = value else { return bad(place, keyword, "an array of values") };
                literals(value, keyword, place)?;
                enum_node(values)
            }
            "const" => {
                literals(value, keyword, place)?;
                value_node(value)
            }
            "allOf" => {
                let mut all = Node::Any;
                for node in self.list(keyword, value, place)? {
                    all = algebra::intersect(self, &all, &node)?;
                }
                all
            }
            "anyOf" => {
                let branches = self.list(keyword, value, place)?;
                self.any_of(branches)?
            }
            "oneOf" => self.one_of(value, place)?,
            "not" => {
                let node = self.schema(value, &place.same(keyword))?;
                Node::Any.excluding(exclusion(node, place, "not"))
            }
            "if" => self.conditional(value, map, place)?,
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                self.dependencies(keyword, value, place)?
            }
            "then" | "else" => return Ok(None),
            _ => {
                if let Some(reason) = dialect::refused(keyword) {
                    return Err(Error::ty(&place.at, keyword, reason));
                }
                if !dialect::is_annotation(keyword) {
                    self.warn(place, format!("unknown keyword {keyword:?}"));
                }
                return Ok(None);
            }
        }))
    }

    fn list(&mut self, keyword: &str, value: &'a Value, place: &Place) -> Result<Vec<Node>> {
        let Some(schemas) = value.as_array().filter(|s| !s.is_empty()) else {
            return bad(place, keyword, "an array of schemas, at least one");
        };
        let place = place.same(keyword);
        schemas.iter().enumerate().map(|(i, s)| self.schema(s, &place.same(&i.to_string()))).collect()
    }

    fn one_of(&mut self, value: &'a Value, place: &Place) -> Result<Node> {
        let branches = self.list("oneOf", value, place)?;
        let exclusions: Vec<Exclusion> =
            branches.iter().map(|b| exclusion(b.clone(), &place.same("oneOf"), "oneOf")).collect();
        let others =
            |i: usize| exclusions.iter().enumerate().filter(move |(j, _)| *j != i).map(|(_, e)| e.clone());
        let nodes = branches.into_iter().enumerate().map(|(i, branch)| {
            let mut arms = branch.into_arms();
            for arm in &mut arms {
                arm.not.extend(others(i));
            }
            Node::Union(arms)
        });
        Ok(Node::union(nodes))
    }

    fn conditional(&mut self, value: &'a Value, map: &'a Map<String, Value>, place: &Place) -> Result<Node> {
        let condition = self.schema(value, &place.same("if"))?;
        let mut branch = |keyword: &str| match map.get(keyword) {
            Some(schema) => self.schema(schema, &place.same(keyword)),
            None => Ok(Node::Any),
        };
        let (then, otherwise) = (branch("then")?, branch("else")?);
        // What a condition has evaluated counts though nothing follows from it.
        if matches!((&then, &otherwise), (Node::Any, Node::Any)) && !self.evaluates {
            return Ok(Node::Any);
        }
        let yes = algebra::intersect(self, &condition, &then)?;
        let no = otherwise.excluding(exclusion(condition, place, "if"));
        Ok(Node::Union([yes.into_arms(), no.into_arms()].concat()))
    }

    /// Each key that is present asks for other keys, or for a schema.
    fn dependencies(&mut self, keyword: &str, value: &'a Value, place: &Place) -> Result<Node> {
        let Value::Object(map) = value else { return bad(place, keyword, "an object") };
        let mut all = Node::Any;
        for (key, wants) in map {
            let at = place.same(keyword);
            let present = match wants {
                Value::Array(names) if keyword != "dependentSchemas" => {
                    let mut object = Object::default();
                    for name in names {
                        let Some(name) = name.as_str() else { return bad(&at, key, "an array of names") };
                        object.required.insert(name.to_string());
                    }
                    implied_object(object)
                }
                _ if keyword == "dependentRequired" => return bad(&at, key, "an array of names"),
                schema => self.schema(schema, &at.same(key))?,
            };
            let mut with = Object::default();
            with.required.insert(key.clone());
            let mut without = Object::default();
            without.props.insert(key.clone(), Node::never());
            let with = algebra::intersect(self, &Node::Union(vec![object_arm(with)]), &present)?;
            let mut arms: Vec<Arm> =
                Node::all_kinds().into_iter().filter(|a| !matches!(a.kind, Kind::Object(_))).collect();
            arms.push(object_arm(without));
            arms.extend(with.into_arms().into_iter().map(|a| Arm { implied: true, ..a }));
            all = algebra::intersect(self, &all, &Node::Union(arms))?;
        }
        Ok(all)
    }

    fn reference(&mut self, map: &'a Map<String, Value>, place: &Place) -> Result<Node> {
        let Some(reference) = map.get("$ref").and_then(Value::as_str) else {
            return bad(place, "$ref", "a string");
        };
        let target = self.target(reference, &place.base);
        let Some(at) = target.filter(|at| pointer::get(self.root, at).is_some()) else {
            let reason =
                format!("{reference:?} is not inside this schema; references to elsewhere are not followed");
            return Err(Error::ty(&place.at, "$ref", reason));
        };
        let def = self.define(at)?;
        self.refs.insert(place.at.clone(), def);
        *self.all_edges[place.def].entry(def).or_default() += 1;
        if let Some(owner) = place.owner {
            *self.edges[owner].entry(def).or_default() += 1;
        }
        Ok(Node::one(Kind::Ref(def)))
    }

    /// The pointer that a reference means.
    fn target(&self, reference: &str, base: &str) -> Option<String> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = match resource {
            "" => base.to_string(),
            id => self.anchors.get(id)?.clone(),
        };
        let fragment = pointer::percent_decode(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(base + &fragment);
        }
        self.anchors.get(&format!("{base}#{fragment}")).cloned()
    }
}

/// The error for a keyword whose value is malformed.
pub(super) fn bad<T>(place: &Place, keyword: &str, wanted: &str) -> Result<T> {
    Err(Error::ty(&place.at, keyword, format!("the value must be {wanted}")))
}

/// Refuses a string that is too long to be written letter by letter.
pub(super) fn literal_size(text: &str, keyword: &str, place: &Place) -> Result<()> {
    if text.len() > MAX_LITERAL {
        let reason =
            format!("a string of {} bytes is too large; at most {MAX_LITERAL} are taken", text.len());
        return Err(Error::ty(&place.at, keyword, reason));
    }
    Ok(())
}

/// Refuses constants that cannot be written exactly.
fn literals(value: &Value, keyword: &str, place: &Place) -> Result<()> {
    // Schemas are nested 100 deep at most, and so are their constants.
    match value {
        Value::Number(n) if !exact::constant_is_certain(n) => {
            Err(Error::ty(&place.at, keyword, exact::uncertain(n)))
        }
        Value::String(s) => literal_size(s, keyword, place),
        Value::Array(items) => items.iter().try_for_each(|v| literals(v, keyword, place)),
        Value::Object(map) => map.iter().try_for_each(|(key, v)| {
            literal_size(key, keyword, place)?;
            literals(v, keyword, place)
        }),
        _ => Ok(()),
    }
}

fn exclusion(node: Node, place: &Place, keyword: &'static str) -> Exclusion {
    Exclusion { node: Arc::new(node), at: place.at.as_str().into(), keyword }
}

fn object_arm(object: Object) -> Arm {
    Arm { kind: Kind::Object(Arc::new(object)), implied: true, not: Vec::new() }
}

/// An object if it is one; every other kind as it is.
fn implied_object(object: Object) -> Node {
    let mut arms: Vec<Arm> =
        Node::all_kinds().into_iter().filter(|a| !matches!(a.kind, Kind::Object(_))).collect();
    arms.push(object_arm(object));
    Node::Union(arms)
}

/// Any of some values; scalars of a kind share one arm.
fn enum_node(values: &[Value]) -> Node {
    let (mut strings, mut numbers, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::String(s) => strings.push(s.clone()),
            Value::Number(n) => numbers.extend(Decimal::of(n)),
            other => rest.push(value_node(other)),
        }
    }
    if !strings.is_empty() {
        let literals = Some(strings);
        rest.push(Node::one(Kind::String(Arc::new(Strings { literals, ..Default::default() }))));
    }
    if !numbers.is_empty() {
        let literals = Some(numbers);
        rest.push(Node::one(Kind::Number(Arc::new(Numbers { literals, ..Default::default() }))));
    }
    Node::union(rest)
}

/// Exactly one value.
fn value_node(value: &Value) -> Node {
    Node::one(match value {
        Value::Null => Kind::Null,
        Value::Bool(b) => Kind::Bool(*b),
        Value::Number(n) => {
            let literals = Decimal::of(n).into_iter().collect();
            Kind::Number(Arc::new(Numbers { literals: Some(literals), ..Default::default() }))
        }
        Value::String(s) => {
            Kind::String(Arc::new(Strings { literals: Some(vec![s.clone()]), ..Default::default() }))
        }
        Value::Array(items) => {
            let n = items.len() as u64;
            let prefix = items.iter().map(value_node).collect();
            Kind::Array(Arc::new(Array::of(Arc::default(), prefix, Node::never(), n, Some(n))))
        }
        Value::Object(map) => {
            let clauses = vec![Clause { keys: Keys::default(), node: Node::never() }];
            Kind::Object(Arc::new(Object {
                at: Arc::default(),
                props: map.iter().map(|(k, v)| (k.clone(), value_node(v))).collect(),
                required: map.keys().cloned().collect(),
                clauses,
                ..Default::default()
            }))
        }
    })
}
