//! Arrays that count some of their items, and arrays whose items differ.

use super::scalar::Scalar;
use super::shape::{is_taken, Alt, AltId, NodeId, Object, Shapes, NEVER};
use crate::constrain::counted::State;
use crate::constrain::unique::same_as;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// Values that nest deeper are not varied any more.
const MAX_VARIED: usize = 32;
/// Lists of values that are kept.
const MAX_KNOWN: usize = 4096;
/// Unnamed pairs of an object that are varied.
const MAX_PAIRS: u64 = 4;
/// Items beyond those needed that a search for an end adds.
const MAX_MORE: u64 = 64;

/// What must not come again: unnamed keys of an object as they are written, items of an array by their value.
pub(super) type Taken = Option<Arc<TakenKey>>;

pub(super) struct TakenKey {
    pub key: Vec<u8>,
    pub before: Taken,
    /// How many there are.
    pub count: usize,
}

/// Different values, the short ones first: the text of each, and what is the same for equal ones.
pub(super) type Varied = Arc<Vec<(Vec<u8>, Vec<u8>)>>;

/// A list of what is taken, one more in front.
pub(super) fn and(taken: &Taken, key: Vec<u8>) -> Taken {
    Some(Arc::new(TakenKey { key, before: taken.clone(), count: count(taken) + 1 }))
}

/// How many are taken.
pub(super) fn count(taken: &Taken) -> usize {
    taken.as_ref().map_or(0, |t| t.count)
}

/// All that is taken.
pub(super) fn keys(taken: &Taken) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut next = taken;
    while let Some(t) = next {
        keys.push(t.key.clone());
        next = &t.before;
    }
    keys
}

/// Whether a value is among those taken.
pub(super) fn has(taken: &Taken, key: &[u8]) -> bool {
    some(taken, &|k| k == key)
}

/// Whether one of those taken is like this.
pub(super) fn some(taken: &Taken, like: &dyn Fn(&[u8]) -> bool) -> bool {
    let mut next = taken;
    while let Some(t) = next {
        if like(&t.key) {
            return true;
        }
        next = &t.before;
    }
    false
}

impl Drop for TakenKey {
    /// Not one within the other: there may be very many.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(Ok(mut only)) = next.map(Arc::try_unwrap) {
            next = only.before.take();
        }
    }
}

/// An array that counts some of its items.
pub(super) struct Counted {
    states: Vec<CountedState>,
    pub unique: bool,
    /// Bytes from each state to the end, the comma before the next item included.
    close: Vec<u64>,
}

struct CountedState {
    ends: bool,
    steps: Vec<(NodeId, u64)>,
}

impl Counted {
    /// `places` has the items of each class: those of its prefix, and all others.
    pub fn new(states: &[State], places: &[(Vec<NodeId>, NodeId)], unique: bool) -> Self {
        let states = states.iter().map(|state| {
            let steps = state.steps.iter().map(|step| {
                let (prefix, rest) = &places[step.class];
                let node = step.place.and_then(|i| prefix.get(i)).unwrap_or(rest);
                (*node, step.next as u64)
            });
            CountedState { ends: state.ends, steps: steps.collect() }
        });
        Counted { states: states.collect(), unique, close: Vec::new() }
    }

    fn distances(&self, min: &dyn Fn(NodeId) -> u64) -> Vec<u64> {
        let mut close: Vec<u64> = self.states.iter().map(|s| if s.ends { 1 } else { NEVER }).collect();
        loop {
            let mut changed = false;
            for (id, state) in self.states.iter().enumerate().rev() {
                let comma = u64::from(id > 0);
                for &(node, next) in &state.steps {
                    let through = min(node).saturating_add(comma).saturating_add(close[next as usize]);
                    if through < close[id] {
                        close[id] = through;
                        changed = true;
                    }
                }
            }
            if !changed {
                return close;
            }
        }
    }

    pub fn tabulate(&mut self, mins: &[u64]) {
        self.close = self.distances(&|node| mins[node as usize]);
        let close = &self.close;
        for state in &mut self.states {
            let cost =
                |(node, next): &(NodeId, u64)| mins[*node as usize].saturating_add(close[*next as usize]);
            state.steps.retain(|step| cost(step) < NEVER);
            // The first step is on the shortest way.
            state.steps.sort_by_key(cost);
        }
    }

    /// Bytes of the shortest array, by what is known so far of its items.
    pub fn shortest(&self, min: &dyn Fn(NodeId) -> u64) -> u64 {
        self.distances(min).first().map_or(NEVER, |bytes| bytes.saturating_add(1))
    }

    pub fn close(&self, state: u64) -> u64 {
        self.close.get(state as usize).copied().unwrap_or(NEVER)
    }

    /// The next item on the shortest way to the end; none where the end is next.
    pub fn shortest_step(&self, state: u64) -> Option<(NodeId, u64)> {
        let state = self.states.get(state as usize).filter(|s| !s.ends)?;
        state.steps.first().copied()
    }
}

impl Shapes {
    pub fn is_unique(&self, alt: AltId) -> bool {
        match &self.alts[alt as usize] {
            Alt::Array(a) => a.unique,
            Alt::Counted(c) => c.unique,
            _ => false,
        }
    }

    /// Items that an array has at least.
    pub fn least_items(&self, alt: AltId) -> u64 {
        match &self.alts[alt as usize] {
            Alt::Array(a) => a.min,
            // Its states are few anyway.
            _ => 0,
        }
    }

    /// Items that may come after `k` others (or in a state) of an array and lead somewhere, and the place after each.
    pub fn next_items(&self, alt: AltId, k: u64) -> Vec<(NodeId, u64)> {
        match &self.alts[alt as usize] {
            Alt::Array(a) if a.goes_on(self, k) => vec![(a.item(k), k + 1)],
            Alt::Counted(c) => c.states.get(k as usize).map(|s| s.steps.clone()).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Whether an array may end here.
    pub fn may_close(&self, alt: AltId, k: u64) -> bool {
        match &self.alts[alt as usize] {
            Alt::Array(a) => k >= a.min,
            Alt::Counted(c) => c.states.get(k as usize).is_some_and(|s| s.ends),
            _ => false,
        }
    }

    /// `n` different values of a node, short ones first, or all there are.
    pub fn values(&self, s: &mut [Scalar], node: NodeId, n: usize, depth: usize) -> Varied {
        if depth > MAX_VARIED || n <= 1 {
            self.cut.store(depth > MAX_VARIED || self.cut.load(Relaxed), Relaxed);
            let mut one = Vec::new();
            let found = self.write(s, node, &mut one, depth);
            let key = same_as(&one);
            return Arc::new(if found { vec![(one, key)] } else { Vec::new() });
        }
        // A few more, so that asking for one more each time stays cheap.
        let n = n.next_power_of_two();
        let key = (node, n, depth);
        if let Some(known) = self.varied.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let found = Arc::new(self.find_values(s, node, n, depth));
        let mut varied = self.varied.lock().unwrap_or_else(PoisonError::into_inner);
        if varied.len() >= MAX_KNOWN {
            varied.clear();
        }
        varied.insert(key, found.clone());
        found
    }

    fn find_values(&self, s: &mut [Scalar], node: NodeId, n: usize, depth: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let alts = &self.nodes[node as usize].alts;
        let is_scalar = |alt: &&AltId| matches!(self.alts[**alt as usize], Alt::Scalar(_));
        for &alt in alts.iter().filter(is_scalar).chain(alts.iter().filter(|a| !is_scalar(a))) {
            if found.len() >= n {
                break;
            }
            for text in self.alt_values(s, alt, n, depth) {
                let key = same_as(&text);
                if seen.insert(key.clone()) {
                    found.push((text, key));
                }
            }
        }
        found.sort_by_key(|(text, _)| text.len());
        found
    }

    /// The same of one alternative.
    pub fn alt_values(&self, s: &mut [Scalar], alt: AltId, n: usize, depth: usize) -> Vec<Vec<u8>> {
        let (open, ends) = match &self.alts[alt as usize] {
            Alt::Scalar(id) => {
                return s[*id as usize].first(n);
            }
            Alt::Array(_) | Alt::Counted(_) => (b'[', self.item_ends(s, alt, 0, &None, n, depth)),
            Alt::Object(o) => (o.brackets.0, self.field_ends(s, o, 0, 0, &[], n, depth)),
            Alt::Seq(parts) => return self.seq_ends(s, parts, n, depth),
        };
        ends.into_iter().map(|end| [&[open], end.as_slice()].concat()).collect()
    }

    /// Ends of an array after `k` items (or in a state), where the items `taken` stand before.
    pub fn item_ends(
        &self,
        s: &mut [Scalar],
        alt: AltId,
        k: u64,
        taken: &Taken,
        n: usize,
        depth: usize,
    ) -> Vec<Vec<u8>> {
        let unique = self.is_unique(alt);
        if unique && n <= 1 && matches!(self.alts[alt as usize], Alt::Array(_)) {
            return self.matched_end(s, alt, k, taken, depth).into_iter().collect();
        }
        let mut ends: Vec<Vec<u8>> = Vec::new();
        let mut begun: Vec<(Vec<u8>, u64, Taken)> = vec![(Vec::new(), k, taken.clone())];
        let mut spare = MAX_MORE;
        while !begun.is_empty() {
            let closed = begun.iter().filter(|(_, k, _)| self.may_close(alt, *k));
            let ended = ends.len();
            ends.extend(closed.map(|(text, ..)| [text.as_slice(), b"]"].concat()));
            if ends.len() >= n || spare == 0 {
                self.cut.store(spare == 0 || self.cut.load(Relaxed), Relaxed);
                break;
            }
            if ends.len() > ended {
                spare -= 1;
            }
            let mut next = Vec::new();
            // Each place gets its share, so that none is crowded out.
            let mut share: HashMap<u64, usize> = HashMap::new();
            for (text, k, taken) in begun {
                let before = if unique { count(&taken) } else { 0 };
                for (node, to) in self.next_items(alt, k) {
                    let count = share.entry(to).or_default();
                    for (value, key) in self.values(s, node, (n + before).max(2), depth + 1).iter() {
                        if *count > n {
                            break;
                        }
                        if unique && has(&taken, key) {
                            continue;
                        }
                        let comma: &[u8] = if k > 0 { b"," } else { b"" };
                        let taken = if unique { and(&taken, key.clone()) } else { None };
                        next.push(([text.as_slice(), comma, value].concat(), to, taken));
                        *count += 1;
                    }
                }
            }
            begun = next;
        }
        if ends.is_empty() && unique {
            ends.extend(self.matched_end(s, alt, k, taken, depth));
        }
        ends.sort_by_key(Vec::len);
        ends
    }

    /// Texts of parts that follow each other.
    pub fn seq_ends(&self, s: &mut [Scalar], parts: &[NodeId], n: usize, depth: usize) -> Vec<Vec<u8>> {
        let mut begun = vec![Vec::new()];
        for part in parts {
            let values = self.values(s, *part, n, depth + 1);
            let joined = begun
                .iter()
                .flat_map(|text: &Vec<u8>| values.iter().map(move |(v, _)| [text.as_slice(), v].concat()));
            begun = joined.take(n.max(1)).collect();
        }
        begun
    }

    /// Ends of an object after `count` properties, with `field` the next that may come.
    #[allow(clippy::too_many_arguments)]
    pub fn field_ends(
        &self,
        s: &mut [Scalar],
        o: &Object,
        field: usize,
        count: u64,
        taken: &[Vec<u8>],
        n: usize,
        depth: usize,
    ) -> Vec<Vec<u8>> {
        let mut begun: Vec<(Vec<u8>, u64)> = vec![(Vec::new(), count)];
        for (i, (key, node, required)) in o.fields.iter().enumerate().skip(field) {
            let mut next = Vec::new();
            let mut share: HashMap<u64, usize> = HashMap::new();
            let values = self.values(s, *node, n.max(2), depth + 1);
            for (text, count) in begun {
                if !required && o.close(i + 1, count) < NEVER {
                    *share.entry(count).or_default() += 1;
                    next.push((text.clone(), count));
                }
                if o.take(i, count, self.min(*node)) >= NEVER {
                    continue;
                }
                let after = o.after(count);
                for (value, _) in values.iter() {
                    let full = share.entry(after).or_default();
                    if *full > n {
                        break;
                    }
                    *full += 1;
                    let comma: &[u8] = if count > 0 { b"," } else { b"" };
                    next.push(([text.as_slice(), comma, key, value].concat(), after));
                }
            }
            begun = next;
        }
        let mut ends = Vec::new();
        for (text, count) in &begun {
            if *count >= o.min && o.max.is_none_or(|m| *count <= m) {
                ends.push([text.as_slice(), &[o.brackets.1]].concat());
            }
        }
        for (text, count) in begun {
            if ends.len() >= n {
                break;
            }
            self.pair_ends(s, o, text, count, taken, n, depth, &mut ends);
        }
        ends.sort_by_key(Vec::len);
        ends
    }

    /// Ends that add unnamed pairs: as many as are missing, one at least.
    #[allow(clippy::too_many_arguments)]
    fn pair_ends(
        &self,
        s: &mut [Scalar],
        o: &Object,
        mut text: Vec<u8>,
        mut count: u64,
        taken: &[Vec<u8>],
        n: usize,
        depth: usize,
        ends: &mut Vec<Vec<u8>>,
    ) {
        let mut taken = taken.to_vec();
        // All but the last ones are the shortest that there are.
        while o.min.saturating_sub(count) > MAX_PAIRS {
            if count > 0 {
                text.push(b',');
            }
            let Some((key, value)) = self.untaken_pair(s, o, &taken) else { return };
            text.extend_from_slice(&key);
            text.push(b':');
            if !self.write(s, value, &mut text, depth + 1) {
                return;
            }
            taken.push(key);
            count += 1;
        }
        let need = o.min.saturating_sub(count).max(1);
        let most = n.saturating_mul(2);
        let mut begun = vec![(text, taken)];
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        for added in 0..need + MAX_PAIRS {
            if o.max.is_some_and(|m| count + added >= m) {
                return;
            }
            let mut next = Vec::new();
            for (text, taken) in &begun {
                let comma: &[u8] = if count + added > 0 { b"," } else { b"" };
                for &(scalar, node) in &o.rest {
                    let scalar = &mut s[scalar as usize];
                    let start = scalar.start();
                    for key in scalar.texts(start, most, &mut |k| !is_taken(taken, k)) {
                        for (value, _) in self.values(s, node, most, depth + 1).iter() {
                            if next.len() >= most {
                                break;
                            }
                            let longer = [text.as_slice(), comma, &key, b":", value].concat();
                            let end = [longer.as_slice(), &[o.brackets.1]].concat();
                            // The same pairs may have come in another order.
                            if seen.insert(same_as(&[&[o.brackets.0], end.as_slice()].concat())) {
                                if added + 1 >= need {
                                    ends.push(end);
                                }
                                next.push((longer, [taken.as_slice(), std::slice::from_ref(&key)].concat()));
                            }
                        }
                    }
                }
            }
            if next.is_empty() || ends.len() >= n {
                return;
            }
            self.cut.store(next.len() >= most || self.cut.load(Relaxed), Relaxed);
            begun = next;
        }
    }
}
