//! What completes a value: the shortest text in most types, and one without equal items where these must differ.

use super::super::scalar::Scalar;
use super::super::sequence::{and, count, has, keys};
use super::super::shape::{is_taken, Alt, Shapes, NEVER};
use super::{Frame, Place, Walk};
use crate::constrain::unique::same_as;

impl Walk {
    /// A short text that completes the value, and how deep values nest on the way to its end.
    pub fn completion(&self, shapes: &Shapes, scalars: &mut [Scalar]) -> Option<(Vec<u8>, usize)> {
        if self.done {
            return Some((Vec::new(), self.depth));
        }
        if !shapes.unique.is_empty() {
            let out = self.distinct_completion(shapes, scalars)?;
            let deepest = self.deepest(&out);
            return Some((out, deepest));
        }
        let mut context = vec![None; self.calls.len()];
        let mut best: Option<(u64, &Frame)> = None;
        for frame in &self.frames {
            let own = self.own_cost(shapes, scalars, frame);
            let total = own.saturating_add(self.context(shapes, frame.call, &mut context).0);
            if total < best.map_or(NEVER, |(bytes, _)| bytes) {
                best = Some((total, frame));
            }
        }
        let mut frame = best?.1;
        let mut out = Vec::new();
        loop {
            if !self.write(shapes, scalars, frame, &mut out) {
                return None;
            }
            match self.context(shapes, frame.call, &mut context).1 {
                Some(parent) => frame = &self.calls[frame.call as usize].parents[parent],
                None => break,
            }
        }
        let deepest = self.deepest(&out);
        Some((out, deepest))
    }

    /// Bytes from the end of a call to the end of the value, and the parent that they go through.
    fn context(
        &self,
        shapes: &Shapes,
        call: u32,
        known: &mut Vec<Option<(u64, Option<usize>)>>,
    ) -> (u64, Option<usize>) {
        if let Some(found) = known[call as usize] {
            return found;
        }
        // Calls nest as deep as values do, which is bounded.
        let parents = &self.calls[call as usize].parents;
        let costs = parents.iter().enumerate().map(|(i, parent)| {
            let own = parent.after_cost(shapes);
            (own.saturating_add(self.context(shapes, parent.call, known).0), Some(i))
        });
        let best = match parents.is_empty() {
            true => (0, None),
            false => costs.min_by_key(|c| c.0).unwrap_or((NEVER, None)),
        };
        known[call as usize] = Some(best);
        best
    }

    fn own_cost(&self, shapes: &Shapes, scalars: &mut [Scalar], frame: &Frame) -> u64 {
        match (&shapes.alts[frame.alt as usize], &frame.place) {
            (Alt::Scalar(id), Place::Scalar(state)) => {
                scalars[*id as usize].distance(*state).unwrap_or(NEVER)
            }
            (_, Place::Start) => shapes.alt_min(frame.alt),
            (Alt::Object(o), Place::Key { field, at, count }) => {
                let (key, node, _) = &o.fields[*field];
                let after = o.close(field + 1, o.after(*count));
                ((key.len() - at) as u64).saturating_add(shapes.min(*node)).saturating_add(after)
            }
            (Alt::Object(o), Place::Open { rest, state, count, .. }) => {
                let (key, node) = o.rest[*rest];
                let key = scalars[key as usize].distance(*state).unwrap_or(NEVER);
                let after = o.close(o.fields.len(), count + 1);
                key.saturating_add(1).saturating_add(shapes.min(node)).saturating_add(after)
            }
            _ => frame.after_cost(shapes),
        }
    }

    /// Appends what completes a frame's own value.
    fn write(&self, shapes: &Shapes, s: &mut [Scalar], frame: &Frame, out: &mut Vec<u8>) -> bool {
        match (&shapes.alts[frame.alt as usize], &frame.place) {
            (Alt::Scalar(id), Place::Scalar(state)) => s[*id as usize].write(*state, out),
            (_, Place::Start) => shapes.write_alt(s, frame.alt, out, 0),
            (Alt::Seq(parts), Place::Part(i)) => {
                parts[*i..].iter().all(|part| shapes.write(s, *part, out, 1))
            }
            (_, Place::Items(k, taken)) => shapes.write_items(s, frame.alt, *k, taken, out, 0),
            (Alt::Object(o), Place::Fields { field, count, taken }) => {
                shapes.write_fields(s, o, *field, *count, &mut keys(taken), out, 0)
            }
            (Alt::Object(o), Place::Key { field, at, count }) => {
                let (key, node, _) = &o.fields[*field];
                out.extend_from_slice(&key[*at..]);
                shapes.write(s, *node, out, 1)
                    && shapes.write_fields(s, o, field + 1, o.after(*count), &mut Vec::new(), out, 0)
            }
            (Alt::Object(o), Place::Open { rest, state, from, count, taken }) => {
                let (key, node) = o.rest[*rest];
                let mut taken = keys(taken);
                let begun = &self.text[*from..];
                let whole = |end: &[u8]| [begun, end].concat();
                let found = s[key as usize].write_untaken(*state, &|end| is_taken(&taken, &whole(end)));
                let Some(end) = found else { return false };
                out.extend_from_slice(&end);
                out.push(b':');
                taken.push(whole(&end));
                shapes.write(s, node, out, 1)
                    && shapes.write_fields(s, o, o.fields.len(), count + 1, &mut taken, out, 0)
            }
            _ => false,
        }
    }
}

/// Items that differ.
impl Walk {
    /// A completion in which no items are equal that must not be.
    fn distinct_completion(&self, shapes: &Shapes, scalars: &mut [Scalar]) -> Option<Vec<u8>> {
        let mut context = vec![None; self.calls.len()];
        let mut order: Vec<(u64, &Frame)> = Vec::new();
        for frame in &self.frames {
            let own = self.own_cost(shapes, scalars, frame);
            let total = own.saturating_add(self.context(shapes, frame.call, &mut context).0);
            if total < NEVER {
                order.push((total, frame));
            }
        }
        order.sort_by_key(|(total, _)| *total);
        for (_, frame) in &order {
            // Mostly the shortest end of each value will do; otherwise enough of them that one is new.
            for n in [1, 2 + self.taken_around(shapes, frame)] {
                let ends = self.ends(shapes, scalars, frame, n);
                if let Some(out) = self.outwards(shapes, scalars, frame.call, ends, n) {
                    return Some(out);
                }
            }
        }
        None
    }

    /// How many items there are, and must still come, that a value here must differ from.
    fn taken_around(&self, shapes: &Shapes, frame: &Frame) -> usize {
        let own = match (&shapes.alts[frame.alt as usize], &frame.place) {
            (Alt::Array(a), Place::Items(k, taken)) if a.unique => {
                count(taken) + usize::try_from(a.min.saturating_sub(*k)).unwrap_or(0)
            }
            (_, Place::Items(_, taken)) => count(taken),
            _ => 0,
        };
        let parents = self.calls[frame.call as usize].parents.iter();
        own + parents.map(|p| self.taken_around(shapes, p)).max().unwrap_or(0)
    }

    /// From some ends of a call's value to the end of the whole.
    fn outwards(
        &self,
        shapes: &Shapes,
        s: &mut [Scalar],
        call: u32,
        mut ends: Vec<Vec<u8>>,
        n: usize,
    ) -> Option<Vec<u8>> {
        let call = &self.calls[call as usize];
        if call.parents.is_empty() || ends.is_empty() {
            return (!ends.is_empty()).then(|| ends.swap_remove(0));
        }
        for parent in &call.parents {
            let mut longer = Vec::new();
            for end in &ends {
                if longer.len() >= n {
                    break;
                }
                let more = match (&parent.place, shapes.is_unique(parent.alt)) {
                    (Place::Items(k, taken), true) => {
                        let key = same_as(&[&self.text[call.from..], end].concat());
                        if has(taken, &key) {
                            continue;
                        }
                        let place = Place::Items(*k, and(taken, key));
                        self.ends(shapes, s, &Frame { place, ..parent.clone() }, n)
                    }
                    _ => self.ends(shapes, s, parent, n),
                };
                longer.extend(more.into_iter().take(n).map(|more| [end.as_slice(), &more].concat()));
            }
            longer.sort_by_key(Vec::len);
            if let Some(out) = self.outwards(shapes, s, parent.call, longer, n) {
                return Some(out);
            }
        }
        None
    }

    /// Up to `n` ends of a frame's own value.
    fn ends(&self, shapes: &Shapes, s: &mut [Scalar], frame: &Frame, n: usize) -> Vec<Vec<u8>> {
        if n <= 1 {
            let mut one = Vec::new();
            return if self.write(shapes, s, frame, &mut one) { vec![one] } else { Vec::new() };
        }
        let join = |before: &[u8], ends: Vec<Vec<u8>>| {
            ends.into_iter().map(|end| [before, &end].concat()).collect::<Vec<_>>()
        };
        match (&shapes.alts[frame.alt as usize], &frame.place) {
            (Alt::Scalar(id), Place::Scalar(state)) => {
                let begun = &self.text[self.calls[frame.call as usize].from..];
                s[*id as usize].values(*state, n, begun)
            }
            (_, Place::Start) => shapes.alt_values(s, frame.alt, n, 0),
            (Alt::Seq(parts), Place::Part(i)) => shapes.seq_ends(s, &parts[*i..], n, 0),
            (_, Place::Items(k, taken)) => shapes.item_ends(s, frame.alt, *k, taken, n, 0),
            (Alt::Object(o), Place::Fields { field, count, taken }) => {
                shapes.field_ends(s, o, *field, *count, &keys(taken), n, 0)
            }
            (Alt::Object(o), Place::Key { field, at, count }) => {
                let (key, node, _) = &o.fields[*field];
                let after = shapes.field_ends(s, o, field + 1, o.after(*count), &[], n, 0);
                let values = shapes.values(s, *node, n, 1);
                let each = values.iter().map(|(v, _)| join(&[&key[*at..], v].concat(), after.clone()));
                each.flatten().take(n * 2).collect()
            }
            (Alt::Object(o), Place::Open { rest, state, from, count, taken }) => {
                let (scalar, node) = o.rest[*rest];
                let mut taken = keys(taken);
                let begun = &self.text[*from..];
                let whole = |end: &[u8]| [begun, end].concat();
                let names = s[scalar as usize].texts(*state, n, &mut |end| !is_taken(&taken, &whole(end)));
                let values = shapes.values(s, node, n, 1);
                let mut found = Vec::new();
                for name in names {
                    taken.push(whole(&name));
                    let after = shapes.field_ends(s, o, o.fields.len(), count + 1, &taken, 1, 0);
                    taken.pop();
                    for (value, _) in values.iter() {
                        found.extend(join(&[name.as_slice(), b":", value].concat(), after.clone()));
                    }
                    if found.len() >= n {
                        break;
                    }
                }
                found
            }
            _ => Vec::new(),
        }
    }
}

impl Frame {
    /// Bytes to the end of the array or object, from between two of its values.
    fn after_cost(&self, shapes: &Shapes) -> u64 {
        match (&shapes.alts[self.alt as usize], &self.place) {
            (Alt::Array(a), Place::Items(k, _)) => a.close(*k),
            (Alt::Counted(c), Place::Items(k, _)) => c.close(*k),
            (Alt::Object(o), Place::Fields { field, count, .. }) => o.close(*field, *count),
            (Alt::Seq(parts), Place::Part(i)) => shapes.seq_close(&parts[*i..]),
            _ => NEVER,
        }
    }
}
