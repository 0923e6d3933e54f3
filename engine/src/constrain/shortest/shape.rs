//! The generated values as a flat table of alternatives, each with the length of its shortest text.

use super::scalar::Scalar;
use super::sequence::{Counted, Taken, Varied};
use crate::constrain::lower::{self, Low, LowArray, LowObject};
use crate::constrain::node::Numbers;
use crate::constrain::spelled::spelled;
use crate::constrain::{counted, numbers, pattern, stop};
use crate::error::{Error, Result};
use llguidance::derivre::RegexAst;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A set of values.
pub(super) type NodeId = u32;
/// One way to begin a value.
pub(super) type AltId = u32;
/// An automaton.
pub(super) type ScalarId = u32;

/// A length that no text has.
pub(super) const NEVER: u64 = u64::MAX / 4;
/// Entries of an object's table: fields times property counts.
const MAX_ENTRIES: u64 = 1_000_000;
/// Nesting of a shortest value; more could not be checked when it is finished.
const MAX_DEPTH: usize = 128;

pub(super) enum Alt {
    Scalar(ScalarId),
    Array(Array),
    Counted(Counted),
    Object(Object),
    /// Parts that follow each other.
    Seq(Vec<NodeId>),
}

pub(super) struct Array {
    pub prefix: Vec<NodeId>,
    pub rest: NodeId,
    pub min: u64,
    pub max: Option<u64>,
    /// Whether no two items are equal.
    pub unique: bool,
    /// Bytes from after `k` items to the end of the array, for `k` up to the prefix and one more.
    close: Vec<u64>,
    /// Bytes of a comma and a further item.
    more: u64,
}

pub(super) struct Object {
    /// The quoted key and its colon, the value, whether it must be there.
    pub fields: Vec<(Vec<u8>, NodeId, bool)>,
    /// Unnamed keys (quoted) and their values.
    pub rest: Vec<(ScalarId, NodeId)>,
    pub min: u64,
    pub max: Option<u64>,
    /// The brackets around it.
    pub brackets: (u8, u8),
    /// Property counts from here on are all the same.
    top: u64,
    /// Bytes from after `count` properties, none of them a later field, to the end: `[field][count]`.
    close: Vec<u64>,
    /// Bytes of the shortest unnamed pair, and where it comes from.
    pair: Option<(u64, usize)>,
}

#[derive(Default)]
pub(super) struct Node {
    pub alts: Vec<AltId>,
    /// Bytes of the shortest text, and the alternative it comes from.
    pub shortest: Option<(u64, AltId)>,
}

#[derive(Default)]
pub(super) struct Shapes {
    pub nodes: Vec<Node>,
    pub alts: Vec<Alt>,
    /// Arrays without equal items, and where the type says so.
    pub unique: Vec<(AltId, Arc<str>)>,
    /// Different values of a node that were found: how many were wanted, how deep it is.
    pub varied: Mutex<HashMap<(NodeId, usize, usize), Varied>>,
    /// Whether a search for different values was cut short, so that there may be more.
    pub cut: AtomicBool,
}

/// What is still to be built: shapes of definitions come first, so that references are their indices.
struct Building {
    shapes: Shapes,
    scalars: Vec<Scalar>,
    /// By their expressions: what a scalar works out holds wherever it stands.
    by_expression: HashMap<String, ScalarId>,
    refs: Vec<Vec<NodeId>>,
    any: Option<NodeId>,
    words: &'static str,
}

impl Shapes {
    /// Of lowered definitions; the root is node 0.
    pub fn of(defs: &[Low], words: &'static str) -> Result<(Self, Vec<Scalar>)> {
        let (shapes, scalars, refs) = (Shapes::default(), Vec::new(), Vec::new());
        let by_expression = HashMap::new();
        let mut b = Building { shapes, scalars, by_expression, refs, any: None, words };
        for _ in defs {
            b.node();
        }
        for (id, low) in defs.iter().enumerate() {
            b.fill(id as NodeId, low)?;
        }
        b.resolve();
        let Building { mut shapes, mut scalars, .. } = b;
        shapes.measure(&mut scalars)?;
        Ok((shapes, scalars))
    }

    /// Of unquoted text.
    pub fn of_text(ast: &RegexAst) -> Result<(Self, Vec<Scalar>)> {
        let mut shapes = Shapes::default();
        shapes.nodes.push(Node { alts: vec![0], shortest: None });
        shapes.alts.push(Alt::Scalar(0));
        let mut scalars = vec![Scalar::new(ast)?];
        shapes.measure(&mut scalars)?;
        Ok((shapes, scalars))
    }

    pub fn min(&self, node: NodeId) -> u64 {
        self.nodes[node as usize].shortest.map_or(NEVER, |(n, _)| n)
    }

    /// Shortest texts of all nodes, from the leaves up until nothing changes.
    fn measure(&mut self, scalars: &mut [Scalar]) -> Result<()> {
        let starts: Vec<u64> = scalars
            .iter_mut()
            .map(|s| {
                let start = s.start();
                let least = s.distance(start).unwrap_or(NEVER);
                // A search that was given up has found nothing.
                stop::look().map(|()| least)
            })
            .collect::<Result<_>>()?;
        loop {
            let mut changed = false;
            stop::check()?;
            for id in (0..self.nodes.len()).rev() {
                let costs = self.nodes[id].alts.iter().map(|&a| (self.cost(a, &starts), a));
                if let Some(best) = costs.min().filter(|(cost, _)| *cost < self.min(id as NodeId)) {
                    self.nodes[id].shortest = Some(best);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let mins: Vec<u64> = (0..self.nodes.len()).map(|n| self.min(n as NodeId)).collect();
        for alt in &mut self.alts {
            match alt {
                Alt::Scalar(_) | Alt::Seq(_) => {}
                Alt::Array(a) => a.tabulate(&mins),
                Alt::Counted(c) => c.tabulate(&mins),
                Alt::Object(o) => o.tabulate(&mins, &starts)?,
            }
        }
        Ok(())
    }

    /// Bytes of the shortest text of an alternative, by what is known so far.
    fn cost(&self, alt: AltId, starts: &[u64]) -> u64 {
        let total = match &self.alts[alt as usize] {
            Alt::Scalar(id) => starts[*id as usize],
            Alt::Counted(c) => c.shortest(&|node| self.min(node)),
            Alt::Seq(parts) => self.seq_close(parts),
            Alt::Array(a) => {
                let first = a.prefix.iter().take(usize::try_from(a.min).unwrap_or(usize::MAX));
                let sum = first.fold(0u64, |sum, n| sum.saturating_add(self.min(*n)));
                let beyond = a.min.saturating_sub(a.prefix.len() as u64);
                let rest = if beyond > 0 { beyond.saturating_mul(self.min(a.rest)) } else { 0 };
                sum.saturating_add(rest).saturating_add(2 + a.min.saturating_sub(1))
            }
            Alt::Object(o) => {
                let (mut sum, mut count, mut optional) = (2u64, 0u64, Vec::new());
                for (key, node, required) in &o.fields {
                    let cost = self.min(*node).saturating_add(key.len() as u64);
                    if *required {
                        (sum, count) = (sum.saturating_add(cost), count + 1);
                    } else {
                        optional.push(cost);
                    }
                }
                let pairs = o
                    .rest
                    .iter()
                    .map(|(k, v)| starts[*k as usize].saturating_add(1).saturating_add(self.min(*v)));
                let pair = pairs.min().unwrap_or(NEVER);
                optional.sort_unstable();
                let mut optional = optional.into_iter();
                let missing = o.min.saturating_sub(count);
                for _ in 0..missing.min(o.fields.len() as u64) {
                    sum = sum.saturating_add(optional.next().unwrap_or(NEVER).min(pair));
                }
                let beyond = missing.saturating_sub(o.fields.len() as u64);
                if beyond > 0 {
                    sum = sum.saturating_add(beyond.saturating_mul(pair));
                }
                let count = count.max(o.min);
                if o.max.is_some_and(|m| count > m) {
                    return NEVER;
                }
                sum.saturating_add(count.saturating_sub(1))
            }
        };
        total.min(NEVER)
    }

    /// Appends the shortest text of a node; `false` if it has none.
    pub fn write(&self, scalars: &mut [Scalar], node: NodeId, out: &mut Vec<u8>, depth: usize) -> bool {
        let Some((_, alt)) = self.nodes[node as usize].shortest else { return false };
        depth <= MAX_DEPTH && self.write_alt(scalars, alt, out, depth)
    }

    /// Bytes of the shortest text of an array or object.
    pub fn alt_min(&self, alt: AltId) -> u64 {
        match &self.alts[alt as usize] {
            Alt::Scalar(_) => NEVER,
            Alt::Seq(parts) => self.seq_close(parts),
            Alt::Array(a) => a.close(0).saturating_add(1).min(NEVER),
            Alt::Counted(c) => c.close(0).saturating_add(1).min(NEVER),
            Alt::Object(o) => o.close(0, 0).saturating_add(1).min(NEVER),
        }
    }

    /// Appends the shortest text of an alternative.
    pub fn write_alt(&self, scalars: &mut [Scalar], alt: AltId, out: &mut Vec<u8>, depth: usize) -> bool {
        match &self.alts[alt as usize] {
            Alt::Scalar(id) => {
                let scalar = &mut scalars[*id as usize];
                let start = scalar.start();
                scalar.write(start, out)
            }
            Alt::Array(_) | Alt::Counted(_) => {
                out.push(b'[');
                self.write_items(scalars, alt, 0, &None, out, depth)
            }
            Alt::Seq(parts) => parts.iter().all(|part| self.write(scalars, *part, out, depth + 1)),
            Alt::Object(o) => {
                out.push(o.brackets.0);
                self.write_fields(scalars, o, 0, 0, &mut Vec::new(), out, depth)
            }
        }
    }

    /// From after `k` items (or in a state of a counting array) to the end of an array that has the items `taken`.
    pub fn write_items(
        &self,
        s: &mut [Scalar],
        alt: AltId,
        mut k: u64,
        taken: &Taken,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> bool {
        if self.is_unique(alt) {
            let ends = self.item_ends(s, alt, k, taken, 1, depth);
            out.extend(ends.first().into_iter().flatten());
            return !ends.is_empty();
        }
        loop {
            let step = match &self.alts[alt as usize] {
                Alt::Array(a) => (k < a.min).then(|| (a.item(k), k + 1)),
                Alt::Counted(c) => c.shortest_step(k),
                _ => return false,
            };
            let Some((node, next)) = step else { break };
            if k > 0 {
                out.push(b',');
            }
            if !self.write(s, node, out, depth + 1) {
                return false;
            }
            k = next;
        }
        out.push(b']');
        true
    }

    /// From after `count` properties, with `field` the next that may come, to the end of an object. `taken`
    /// are the unnamed keys that it has.
    #[allow(clippy::too_many_arguments)]
    pub fn write_fields(
        &self,
        s: &mut [Scalar],
        o: &Object,
        mut field: usize,
        mut count: u64,
        taken: &mut Vec<Vec<u8>>,
        out: &mut Vec<u8>,
        depth: usize,
    ) -> bool {
        while let Some((key, node, required)) = o.fields.get(field) {
            let skip = if *required { NEVER } else { o.close(field + 1, count) };
            if o.take(field, count, self.min(*node)) < skip {
                if count > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(key);
                if !self.write(s, *node, out, depth + 1) {
                    return false;
                }
                count = o.after(count);
            }
            field += 1;
        }
        while count < o.min {
            if count > 0 {
                out.push(b',');
            }
            let Some((key, value)) = self.untaken_pair(s, o, taken) else { return false };
            out.extend_from_slice(&key);
            taken.push(key);
            out.push(b':');
            if !self.write(s, value, out, depth + 1) {
                return false;
            }
            count += 1;
        }
        out.push(o.brackets.1);
        true
    }

    /// A further key of an object and what its value is: of the cheapest kind of pair that has names left.
    pub fn untaken_pair(&self, s: &mut [Scalar], o: &Object, taken: &[Vec<u8>]) -> Option<(Vec<u8>, NodeId)> {
        let order = o.pair.into_iter().map(|(_, i)| i).chain(0..o.rest.len());
        order.into_iter().find_map(|i| {
            let (scalar, value) = o.rest[i];
            let scalar = &mut s[scalar as usize];
            let start = scalar.start();
            let key = scalar.write_untaken(start, &|k| is_taken(taken, k))?;
            (self.min(value) < NEVER).then_some((key, value))
        })
    }

    /// Bytes of parts that follow each other.
    pub fn seq_close(&self, parts: &[NodeId]) -> u64 {
        parts.iter().fold(0u64, |sum, part| sum.saturating_add(self.min(*part))).min(NEVER)
    }
}

/// Whether a quoted key is among others, in any spelling.
pub(super) fn is_taken(taken: &[Vec<u8>], key: &[u8]) -> bool {
    !taken.is_empty() && {
        let key = spelling(key);
        taken.iter().any(|t| spelling(t) == key)
    }
}

fn spelling(quoted: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<String>(quoted) {
        Ok(text) => text.into_bytes(),
        Err(_) => quoted.to_vec(),
    }
}

impl Array {
    pub fn item(&self, index: u64) -> NodeId {
        usize::try_from(index).ok().and_then(|i| self.prefix.get(i)).copied().unwrap_or(self.rest)
    }

    fn tabulate(&mut self, mins: &[u64]) {
        let n = self.prefix.len() as u64;
        self.more = mins[self.rest as usize].saturating_add(1).min(NEVER);
        self.close = vec![0; n as usize + 2];
        self.close[n as usize + 1] = self.close_beyond(n + 1);
        for k in (0..=n).rev() {
            let comma = u64::from(k > 0);
            self.close[k as usize] = match k >= self.min {
                true => 1,
                false if k == n => self.close_beyond(n).saturating_sub(u64::from(k == 0)),
                false => {
                    let item = mins[self.prefix[k as usize] as usize];
                    item.saturating_add(comma).saturating_add(self.close[k as usize + 1]).min(NEVER)
                }
            };
        }
    }

    fn close_beyond(&self, k: u64) -> u64 {
        let missing = self.min.saturating_sub(k);
        if missing == 0 {
            1
        } else {
            missing.saturating_mul(self.more).saturating_add(1).min(NEVER)
        }
    }

    /// Bytes from after `k` items to the end.
    pub fn close(&self, k: u64) -> u64 {
        match usize::try_from(k).ok().and_then(|k| self.close.get(k)) {
            Some(&bytes) => bytes,
            None => self.close_beyond(k),
        }
    }

    /// Whether another item may come after `k`, and lead somewhere.
    pub fn goes_on(&self, shapes: &Shapes, k: u64) -> bool {
        self.max.is_none_or(|m| k < m) && shapes.min(self.item(k)) < NEVER && self.close(k + 1) < NEVER
    }
}

impl Object {
    /// The property count after one more.
    pub fn after(&self, count: u64) -> u64 {
        (count + 1).min(self.top.max(count))
    }

    fn tabulate(&mut self, mins: &[u64], starts: &[u64]) -> Result<()> {
        let n = self.fields.len() as u64;
        self.top = self.max.unwrap_or(self.min.max(1)).min(n.max(1));
        if (n + 1).saturating_mul(self.top + 1) > MAX_ENTRIES {
            return Err(Error::ty("", "minProperties, maxProperties", "too many properties to be counted"));
        }
        let pairs =
            self.rest.iter().enumerate().map(|(i, (k, v))| {
                (starts[*k as usize].saturating_add(1).saturating_add(mins[*v as usize]), i)
            });
        self.pair = pairs.min().filter(|(bytes, _)| *bytes < NEVER);
        let width = self.top as usize + 1;
        self.close = vec![NEVER; (n as usize + 1) * width];
        for count in 0..width {
            self.close[n as usize * width + count] = self.tail(count as u64);
        }
        for field in (0..n as usize).rev() {
            for count in 0..width {
                let take = self.take(field, count as u64, mins[self.fields[field].1 as usize]);
                let skip = if self.fields[field].2 { NEVER } else { self.close(field + 1, count as u64) };
                self.close[field * width + count] = take.min(skip);
            }
        }
        Ok(())
    }

    /// Bytes from a field on, if it is there and its value has `value` bytes.
    pub fn take(&self, field: usize, count: u64, value: u64) -> u64 {
        if self.max.is_some_and(|m| count >= m) {
            return NEVER;
        }
        let key = self.fields[field].0.len() as u64 + u64::from(count > 0);
        let after = self.close(field + 1, (count + 1).min(self.top));
        key.saturating_add(value).saturating_add(after).min(NEVER)
    }

    /// Bytes from after `count` properties to the end.
    pub fn close(&self, field: usize, count: u64) -> u64 {
        if field >= self.fields.len() {
            return self.tail(count);
        }
        self.close[field * (self.top as usize + 1) + count.min(self.top) as usize]
    }

    fn tail(&self, count: u64) -> u64 {
        let need = self.min.saturating_sub(count);
        if self.max.is_some_and(|m| count > m || need > m - count) {
            return NEVER;
        }
        match self.pair {
            _ if need == 0 => 1,
            None => NEVER,
            Some((pair, _)) => {
                let commas = need - u64::from(count == 0);
                need.saturating_mul(pair).saturating_add(commas + 1).min(NEVER)
            }
        }
    }

    /// Whether it may end after `count` properties with `field` the next that could come.
    pub fn may_end(&self, field: usize, count: u64) -> bool {
        count >= self.min && self.fields[field..].iter().all(|f| !f.2)
    }

    /// Fields that may come next.
    pub fn next_fields<'a>(
        &'a self,
        shapes: &'a Shapes,
        field: usize,
        count: u64,
    ) -> impl Iterator<Item = usize> + 'a {
        let skippable = self.fields[field..].iter().take_while(|f| !f.2).count();
        let last = (field + skippable).min(self.fields.len().saturating_sub(1));
        let some = if field < self.fields.len() { field..last + 1 } else { 0..0 };
        some.filter(move |&i| self.take(i, count, shapes.min(self.fields[i].1)) < NEVER)
    }

    /// Whether an unnamed pair may come next.
    pub fn opens(&self, field: usize, count: u64) -> bool {
        let left = self.fields.get(field..).unwrap_or_default();
        !self.rest.is_empty() && left.iter().all(|f| !f.2) && self.tail(count + 1) < NEVER
    }
}

impl Building {
    fn node(&mut self) -> NodeId {
        self.shapes.nodes.push(Node::default());
        self.refs.push(Vec::new());
        self.shapes.nodes.len() as NodeId - 1
    }

    fn scalar(&mut self, ast: &RegexAst) -> Result<ScalarId> {
        let text = spelled(ast);
        if let Some(&known) = text.as_ref().and_then(|text| self.by_expression.get(text)) {
            return Ok(known);
        }
        let id = self.scalars.len() as ScalarId;
        self.scalars.push(Scalar::new(ast)?);
        self.by_expression.extend(text.map(|text| (text, id)));
        Ok(id)
    }

    fn add(&mut self, node: NodeId, alt: Alt) {
        self.shapes.alts.push(alt);
        self.shapes.nodes[node as usize].alts.push(self.shapes.alts.len() as AltId - 1);
    }

    fn make(&mut self, low: &Low) -> Result<NodeId> {
        if low.any {
            return self.any();
        }
        if let ([def], None, [], [], []) = (&*low.refs, &low.scalar, &*low.arrays, &*low.objects, &*low.seqs)
        {
            // Definitions have the first ids.
            return Ok(*def as NodeId);
        }
        let node = self.node();
        self.fill(node, low)?;
        Ok(node)
    }

    fn fill(&mut self, node: NodeId, low: &Low) -> Result<()> {
        stop::check()?;
        if low.any {
            let any = self.any()?;
            self.refs[node as usize].push(any);
            return Ok(());
        }
        if let Some(ast) = &low.scalar {
            let scalar = self.scalar(ast)?;
            self.add(node, Alt::Scalar(scalar));
        }
        for low in &low.arrays {
            self.array(node, low)?;
        }
        for LowObject { fields, rest, min, max, arguments, .. } in &low.objects {
            let mut named = Vec::new();
            for field in fields {
                let key = field.text(*arguments).into_bytes();
                named.push((key, self.make(&field.value)?, field.required));
            }
            let mut pairs = Vec::new();
            for (key, value) in rest {
                pairs.push((self.scalar(key)?, self.make(value)?));
            }
            let brackets = if *arguments { (b'(', b')') } else { (b'{', b'}') };
            self.add(node, Alt::Object(Object { brackets, ..object(named, pairs, *min, *max) }));
        }
        for parts in &low.seqs {
            let parts = parts.iter().map(|part| self.make(part)).collect::<Result<_>>()?;
            self.add(node, Alt::Seq(parts));
        }
        self.refs[node as usize].extend(low.refs.iter().map(|&def| def as NodeId));
        Ok(())
    }

    fn array(&mut self, node: NodeId, low: &LowArray) -> Result<()> {
        let alt = if low.counts.is_empty() {
            let prefix = low.prefix.iter().map(|l| self.make(l)).collect::<Result<_>>()?;
            let rest = self.make(&low.rest)?;
            Alt::Array(Array { unique: low.unique, ..array(prefix, rest, low.min, low.max) })
        } else {
            let mut places = Vec::new();
            for class in &low.classes {
                let prefix = class.prefix.iter().map(|l| self.make(l)).collect::<Result<Vec<_>>>()?;
                places.push((prefix, self.make(&class.rest)?));
            }
            let states = counted::states(low, &|_| true)?;
            Alt::Counted(Counted::new(&states, &places, low.unique))
        };
        self.add(node, alt);
        if low.unique {
            self.shapes.unique.push((self.shapes.alts.len() as AltId - 1, low.at.clone()));
        }
        Ok(())
    }

    /// Any value, as the grammar has it.
    fn any(&mut self) -> Result<NodeId> {
        if let Some(any) = self.any {
            return Ok(any);
        }
        let any = self.node();
        self.any = Some(any);
        let number = numbers::language(&Numbers::default()).map_err(Error::Internal)?;
        let word = RegexAst::Regex(self.words.into());
        let string = lower::quote(RegexAst::Regex(pattern::ANY_STRING.into()));
        let key = self.scalar(&string)?;
        let scalar = self.scalar(&RegexAst::Or(vec![word, number, string]))?;
        self.add(any, Alt::Scalar(scalar));
        self.add(any, Alt::Array(array(Vec::new(), any, 0, None)));
        self.add(any, Alt::Object(object(Vec::new(), vec![(key, any)], 0, None)));
        Ok(any)
    }

    /// Gives each node the alternatives of what it refers to.
    fn resolve(&mut self) {
        for node in 0..self.refs.len() {
            let mut seen = vec![node as NodeId];
            let mut next = 0;
            while let Some(&id) = seen.get(next) {
                next += 1;
                for &to in &self.refs[id as usize] {
                    if !seen.contains(&to) {
                        seen.push(to);
                    }
                }
            }
            let own = |id: &NodeId| self.shapes.nodes[*id as usize].alts.clone();
            let all: Vec<AltId> = seen[1..].iter().flat_map(own).collect();
            // Alternatives that a node got from others are in `refs` order behind its own; they repeat none,
            // since each definition's own were made once.
            let alts = &mut self.shapes.nodes[node].alts;
            for alt in all {
                if !alts.contains(&alt) {
                    alts.push(alt);
                }
            }
        }
    }
}

fn array(prefix: Vec<NodeId>, rest: NodeId, min: u64, max: Option<u64>) -> Array {
    Array { prefix, rest, min, max, unique: false, close: Vec::new(), more: 0 }
}

fn object(
    fields: Vec<(Vec<u8>, NodeId, bool)>,
    rest: Vec<(ScalarId, NodeId)>,
    min: u64,
    max: Option<u64>,
) -> Object {
    Object { fields, rest, min, max, brackets: (b'{', b'}'), top: 0, close: Vec::new(), pair: None }
}
