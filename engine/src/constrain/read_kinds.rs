//! The keywords that bound one kind of value: `type`, `minimum`, `pattern`, `items`, `properties`, ...

use super::algebra::{self, length_language};
use super::decimal::Decimal;
use super::dialect;
use super::exact;
use super::formats::{self, Format};
use super::node::*;
use super::pattern::Pattern;
use super::read::{bad, literal_size, Place, Reader};
use crate::error::{Error, Result};
use llguidance::derivre::RegexAst;
use serde_json::{Map, Value};
use std::sync::Arc;

type Keywords = Map<String, Value>;

/// Characters of a pattern that an error shows.
const MAX_SHOWN: usize = 80;

/// The kinds of `type`, with `integer` apart.
const KINDS: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl<'a> Reader<'a> {
    /// What the keywords of one schema say of each kind of value.
    pub(super) fn kinds(&mut self, map: &'a Keywords, place: &Place) -> Result<Node> {
        let types = types(map, place)?;
        let stated = |kind: &str| match &types {
            Some(list) => {
                list.iter().any(|t| *t == kind || (kind == "number" && *t == "integer")).then_some(false)
            }
            None => Some(!map.keys().any(|k| dialect::kind_of(k) == Some(kind))),
        };
        // Without `type`, the kinds that other keywords speak of are meant, and the rest is merely allowed.
        let nothing_said = types.is_none() && !KINDS.iter().any(|k| stated(k) == Some(false));
        let integer = types.as_ref().is_some_and(|t| t.contains(&"integer") && !t.contains(&"number"));
        let mut arms = Vec::new();
        let mut push = |kind: Kind, implied: bool| {
            arms.push(Arm { kind, implied: implied || nothing_said, not: vec![] })
        };
        for kind in
            types.clone().unwrap_or_else(|| KINDS.iter().copied().filter(|k| *k != "integer").collect())
        {
            let Some(implied) = stated(if kind == "integer" { "number" } else { kind }) else { continue };
            match kind {
                "null" => push(Kind::Null, implied),
                "boolean" => {
                    push(Kind::Bool(true), implied);
                    push(Kind::Bool(false), implied);
                }
                "number" | "integer" if kind == "integer" && !integer => {}
                "number" | "integer" => push(Kind::Number(Arc::new(numbers(map, integer, place)?)), implied),
                "string" => {
                    let strings = self.strings(map, place)?;
                    if strings.max.is_none_or(|max| strings.min <= max) {
                        push(Kind::String(Arc::new(strings)), implied);
                    }
                }
                "array" => {
                    if let Some(array) = self.array(map, place)? {
                        push(Kind::Array(Arc::new(array)), implied);
                    }
                }
                _ => push(Kind::Object(Arc::new(self.object(map, place)?)), implied),
            }
        }
        Ok(Node::Union(arms))
    }

    fn strings(&mut self, map: &'a Keywords, place: &Place) -> Result<Strings> {
        let mut s = Strings { min: count(map, "minLength", place)?.unwrap_or(0), ..Default::default() };
        s.max = count(map, "maxLength", place)?;
        if let Some(value) = map.get("pattern") {
            s.matching.push(pattern_at(value, "pattern", place)?);
        }
        if let Some(value) = map.get("format") {
            let Some(name) = value.as_str() else { return bad(place, "format", "a string") };
            match formats::lookup(name) {
                Format::Known(p) => s.matching.push(p),
                Format::Refused(reason) => return Err(Error::ty(&place.at, "format", reason)),
                Format::Unknown => self.warn(place, format!("unknown format {name:?}")),
            }
        }
        Ok(s)
    }

    fn array(&mut self, map: &'a Keywords, place: &Place) -> Result<Option<Array>> {
        let min = count(map, "minItems", place)?.unwrap_or(0);
        let mut max = count(map, "maxItems", place)?;
        let (list, rest) = match map.get("items") {
            Some(Value::Array(_)) if self.dialect.has_item_lists() => ("items", "additionalItems"),
            _ => ("prefixItems", "items"),
        };
        let mut prefix = Vec::new();
        let mut evaluated = if map.contains_key(rest) { usize::MAX } else { 0 };
        if let Some(value) = map.get(list) {
            let Value::Array(items) = value else { return bad(place, list, "an array of schemas") };
            evaluated = evaluated.max(items.len());
            let at = place.part(list);
            for (i, item) in items.iter().enumerate() {
                let node = self.schema(item, &at.part(&i.to_string()))?;
                if node.is_never() {
                    max = algebra::least(max, Some(i as u64));
                    break;
                }
                prefix.push(node);
            }
        }
        let rest = match map.get(rest) {
            Some(schema) => self.schema(schema, &place.part(rest))?,
            None => Node::Any,
        };
        if rest.is_never() {
            max = algebra::least(max, Some(prefix.len() as u64));
        }
        let unique = map.get("uniqueItems") == Some(&Value::Bool(true)) && max.is_none_or(|m| m > 1);
        let contains: Vec<Contains> = self.contains(map, place)?.into_iter().collect();
        let possible = contains.iter().all(|c| c.max.is_none_or(|m| c.min <= m));
        let at = place.at.as_str().into();
        Ok((possible && max.is_none_or(|m| min <= m)).then_some(Array {
            at,
            prefix,
            rest,
            min,
            max,
            contains,
            unique,
            evaluated,
        }))
    }

    fn contains(&mut self, map: &'a Keywords, place: &Place) -> Result<Option<Contains>> {
        let Some(schema) = map.get("contains") else { return Ok(None) };
        let node = self.schema(schema, &place.part("contains"))?;
        let (min, max) = match self.dialect.counts_contained() {
            true => (count(map, "minContains", place)?.unwrap_or(1), count(map, "maxContains", place)?),
            false => (1, None),
        };
        let at = place.at.as_str().into();
        Ok(Some(Contains { node, from: 0, min, max, at, keyword: "contains" }))
    }

    fn object(&mut self, map: &'a Keywords, place: &Place) -> Result<Object> {
        let mut object = Object {
            min: count(map, "minProperties", place)?.unwrap_or(0),
            at: place.at.as_str().into(),
            ..Default::default()
        };
        object.max = count(map, "maxProperties", place)?;
        for (key, schema) in schemas(map, "properties", place)? {
            literal_size(key, "properties", place)?;
            let node = self.schema(schema, &place.part("properties").part(key))?;
            object.props.insert(key.clone(), node);
            object.evaluated.names.insert(key.clone());
        }
        for (source, schema) in schemas(map, "patternProperties", place)? {
            let at = place.part("patternProperties");
            let pattern = pattern_at(&Value::String(source.clone()), source, &at)?;
            let node = self.schema(schema, &at.part(source))?;
            for (key, value) in &mut object.props {
                if pattern.matches(key) {
                    *value = algebra::intersect(self, value, &node)?;
                }
            }
            object.evaluated.patterns.push(pattern.clone());
            object.clauses.push(Clause { keys: Keys { all: vec![pattern], ..Default::default() }, node });
        }
        if let Some(schema) = map.get("additionalProperties") {
            let node = self.schema(schema, &place.part("additionalProperties"))?;
            let none = object.clauses.iter().flat_map(|c| c.keys.all.iter().cloned()).collect();
            let names = object.props.keys().cloned().collect();
            object.clauses.push(Clause { keys: Keys { all: vec![], none, names }, node });
            object.evaluated.all = true;
        }
        self.required(map, place, &mut object)?;
        if let Some(schema) = map.get("propertyNames") {
            let node = self.schema(schema, &place.part("propertyNames"))?;
            let names = allowed_names(node, place)?;
            if !map.contains_key("additionalProperties") {
                // It speaks of further keys, so there are some.
                let keys = Keys { all: names.iter().cloned().collect(), ..Default::default() };
                object.clauses.push(Clause { keys, node: Node::Any });
            }
            if let Some(names) = names {
                restrict_names(&mut object, names, place)?;
            }
        }
        Ok(object)
    }

    fn required(&mut self, map: &'a Keywords, place: &Place, object: &mut Object) -> Result<()> {
        match map.get("required") {
            None => {}
            Some(Value::Array(names)) => {
                for name in names {
                    let Some(name) = name.as_str() else {
                        return bad(place, "required", "an array of names");
                    };
                    literal_size(name, "required", place)?;
                    object.required.insert(name.to_string());
                }
            }
            // Draft 3 wrote it into the property; it has no meaning since.
            Some(Value::Bool(_)) => {
                self.warn(place, "required is an array of names; a boolean says nothing".into())
            }
            Some(_) => return bad(place, "required", "an array of names"),
        }
        Ok(())
    }
}

/// The kinds that `type` lists.
fn types<'a>(map: &'a Keywords, place: &Place) -> Result<Option<Vec<&'a str>>> {
    let list: Vec<&Value> = match map.get("type") {
        None => return Ok(None),
        Some(Value::Array(list)) if !list.is_empty() => list.iter().collect(),
        Some(one) => vec![one],
    };
    let mut types: Vec<&str> = Vec::new();
    for value in list {
        match value.as_str().filter(|t| KINDS.contains(t)) {
            Some(t) if !types.contains(&t) => types.push(t),
            Some(_) => {}
            None => return bad(place, "type", &format!("among {}, or an array of these", KINDS.join(", "))),
        }
    }
    if dialect::is_nullable(map) && !types.contains(&"null") {
        types.push("null");
    }
    Ok(Some(types))
}

fn numbers(map: &Keywords, integer: bool, place: &Place) -> Result<Numbers> {
    let mut n = Numbers { integer, at: Some(place.at.as_str().into()), ..Default::default() };
    for (inclusive, exclusive, slot) in
        [("minimum", "exclusiveMinimum", &mut n.min), ("maximum", "exclusiveMaximum", &mut n.max)]
    {
        let bound = decimal(map, inclusive, place)?;
        // Draft 4 has a boolean that sharpens the bound beside it.
        let strict = match map.get(exclusive) {
            Some(Value::Bool(strict)) => {
                *slot = bound.map(|value| Bound { value, exclusive: *strict });
                continue;
            }
            _ => decimal(map, exclusive, place)?,
        };
        let wins = |s: &Decimal, b: &Decimal| if inclusive == "minimum" { s >= b } else { s <= b };
        *slot = match (bound, strict) {
            (Some(b), Some(s)) if wins(&s, &b) => Some(Bound { value: s, exclusive: true }),
            (Some(value), _) => Some(Bound { value, exclusive: false }),
            (None, strict) => strict.map(|value| Bound { value, exclusive: true }),
        };
    }
    if let Some(step) = decimal(map, "multipleOf", place)? {
        if step.is_zero() || step.negative {
            return bad(place, "multipleOf", "greater than zero");
        }
        n.multiples.push(step);
    }
    Ok(n)
}

fn decimal(map: &Keywords, keyword: &str, place: &Place) -> Result<Option<Decimal>> {
    match map.get(keyword) {
        None => Ok(None),
        Some(Value::Number(n)) if !exact::bound_is_certain(n) => {
            Err(Error::ty(&place.at, keyword, exact::uncertain(n)))
        }
        Some(Value::Number(n)) => match Decimal::of(n) {
            Some(d) => Ok(Some(d)),
            None => bad(place, keyword, "a number of moderate size"),
        },
        Some(_) => bad(place, keyword, "a number"),
    }
}

/// A keyword that counts something.
fn count(map: &Keywords, keyword: &str, place: &Place) -> Result<Option<u64>> {
    let Some(value) = map.get(keyword) else { return Ok(None) };
    // `2.0` is an integer too.
    let whole =
        value.as_u64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(|f| f as u64));
    match whole {
        Some(n) => Ok(Some(n)),
        None => bad(place, keyword, "a non-negative integer"),
    }
}

fn pattern_at(value: &Value, keyword: &str, place: &Place) -> Result<Pattern> {
    let Some(source) = value.as_str() else { return bad(place, keyword, "a string") };
    Pattern::search(source).map_err(|e| {
        Error::ty(&place.at, keyword, format!("character {} of {}: {}", e.at + 1, shown(source), e.reason))
    })
}

/// A pattern in an error, not longer than a line.
fn shown(source: &str) -> String {
    match source.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{:?}...", &source[..end]),
        None => format!("{source:?}"),
    }
}

fn schemas<'a>(map: &'a Keywords, keyword: &str, place: &Place) -> Result<Vec<(&'a String, &'a Value)>> {
    match map.get(keyword) {
        None => Ok(Vec::new()),
        Some(Value::Object(map)) => Ok(map.iter().collect()),
        Some(_) => bad(place, keyword, "an object of schemas"),
    }
}

/// The names that `propertyNames` allows; `None` if it allows all.
fn allowed_names(node: Node, place: &Place) -> Result<Option<Pattern>> {
    let arms = match node {
        Node::Any => return Ok(None),
        Node::Union(arms) => arms,
    };
    let mut sets = Vec::new();
    for arm in arms {
        match arm.kind {
            Kind::String(s) if arm.not.is_empty() => sets.push(algebra::string_language(&s)),
            Kind::Ref(_) | Kind::String(_) => {
                return Err(Error::ty(
                    &place.at,
                    "propertyNames",
                    "only plain string schemas can be enforced",
                ));
            }
            _ => {}
        }
    }
    let allowed = RegexAst::And(vec![length_language(0, None), RegexAst::Or(sets)]);
    Ok(Some(Pattern::of(format!("propertyNames at {}", place.at), allowed)))
}

/// Keys whose names are not allowed are not there.
fn restrict_names(object: &mut Object, names: Pattern, place: &Place) -> Result<()> {
    for (key, value) in &mut object.props {
        if !names.matches(key) {
            *value = Node::never();
        }
    }
    let missing = object.required.iter().find(|key| !names.matches(key));
    if let Some(key) = missing {
        let reason = format!("{key:?} is required but no name that is allowed");
        return Err(Error::ty(&place.at, "propertyNames", reason));
    }
    object
        .clauses
        .push(Clause { keys: Keys { none: vec![names], ..Default::default() }, node: Node::never() });
    Ok(())
}
