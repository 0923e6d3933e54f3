//! Follows the text of a value through its shapes, byte by byte, in all ways that it can be read.

use super::scalar::Scalar;
use super::sequence::{and, count, has, keys, some, Taken};
use super::shape::{is_taken, Alt, AltId, NodeId, Object, Shapes, NEVER};
use crate::constrain::unique::same_as;
use llguidance::derivre::StateID;

/// Ways to read one text. Types of which more are possible cannot be steered.
const MAX_FRAMES: usize = 50_000;
/// Numbers in the name of a place.
const MAX_NAME: usize = 2_000;

/// A node begun at some byte, and what goes on when it ends.
#[derive(Clone)]
struct Call {
    node: NodeId,
    parents: Vec<Frame>,
    /// Where its text begins.
    from: usize,
    /// Whether it is somewhere within an array whose items differ.
    apart: bool,
}

/// A way to read the text so far.
#[derive(Clone)]
pub(super) struct Frame {
    call: u32,
    alt: AltId,
    place: Place,
}

#[derive(Clone)]
enum Place {
    /// Before the opening bracket.
    Start,
    Scalar(StateID),
    /// After so many items (or in a state of an array that counts them), or directly after the bracket. The items are
    /// kept where no two may be equal.
    Items(u64, Taken),
    /// Before a field, after so many properties.
    Fields {
        field: usize,
        count: u64,
        taken: Taken,
    },
    /// Within parts that follow each other, before this one.
    Part(usize),
    /// In a field's key, of which so many bytes are written.
    Key {
        field: usize,
        at: usize,
        count: u64,
    },
    /// In an unnamed key that began at a byte of the text.
    Open {
        rest: usize,
        state: StateID,
        from: usize,
        count: u64,
        taken: Taken,
    },
}

/// A position in the text of a value.
#[derive(Clone)]
pub(super) struct Walk {
    calls: Vec<Call>,
    frames: Vec<Frame>,
    /// Whether the text is a whole value.
    done: bool,
    text: Vec<u8>,
    /// Brackets that are open.
    depth: usize,
    quoted: Quoted,
    /// Brackets around an array of which a way to read it was given up, because it has equal items; a grammar still
    /// follows that way. [`usize::MAX`] if there is none.
    given_up: usize,
    /// Length of the text at the last [`Walk::mark`].
    marked: usize,
}

/// Where a walk can go back to.
pub(super) struct Mark {
    calls: usize,
    frames: Vec<Frame>,
    done: bool,
    text: usize,
    depth: usize,
    quoted: Quoted,
    given_up: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Quoted {
    No,
    Yes,
    Escape,
}

/// What a step works on.
struct Step<'a> {
    shapes: &'a Shapes,
    scalars: &'a mut [Scalar],
    calls: &'a mut Vec<Call>,
    text: &'a [u8],
    frames: Vec<Frame>,
    /// Calls that began with this byte.
    begun: Vec<(NodeId, u32)>,
    /// Calls that ended with it.
    ended: Vec<u32>,
    done: bool,
    byte: u8,
    /// Where calls begin that begin now: behind the byte that is being read.
    next: usize,
    /// Whether a way to read an array ended because of equal items.
    gave_up: bool,
    /// Whether a part of several began.
    part: bool,
}

impl Walk {
    /// At the start of a value of node 0.
    pub fn new(shapes: &Shapes, scalars: &mut [Scalar]) -> Self {
        let mut calls = Vec::new();
        let mut step = Step::new(shapes, scalars, &mut calls, &[]);
        step.call(0, None);
        let (frames, done) = (step.frames, step.done);
        let given_up = usize::MAX;
        let (text, depth, quoted, marked) = (Vec::new(), 0, Quoted::No, 0);
        Walk { calls, frames, done, text, depth, quoted, given_up, marked }
    }

    /// Bytes read so far.
    pub fn read(&self) -> usize {
        self.text.len()
    }

    pub fn mark(&mut self) -> Mark {
        self.marked = self.text.len();
        Mark {
            calls: self.calls.len(),
            frames: self.frames.clone(),
            done: self.done,
            text: self.text.len(),
            depth: self.depth,
            quoted: self.quoted,
            given_up: self.given_up,
        }
    }

    /// Back to a mark made before.
    pub fn back(&mut self, mark: Mark) {
        // Parents are added to a call only while its first byte is read, so older calls are as they were.
        self.calls.truncate(mark.calls);
        self.text.truncate(mark.text);
        self.frames = mark.frames;
        (self.done, self.depth, self.quoted) = (mark.done, mark.depth, mark.quoted);
        self.given_up = mark.given_up;
    }

    /// Moves on. `false` if no value goes on so.
    pub fn advance(&mut self, shapes: &Shapes, scalars: &mut [Scalar], bytes: &[u8]) -> bool {
        for &byte in bytes {
            let frames = std::mem::take(&mut self.frames);
            let mut step = Step::new(shapes, scalars, &mut self.calls, &self.text);
            (step.byte, step.next) = (byte, self.text.len() + 1);
            for frame in frames {
                step.frame(frame, byte);
            }
            let (gave_up, part) = (step.gave_up, step.part);
            (self.frames, self.done) = (step.frames, step.done);
            self.text.push(byte);
            self.nest(byte);
            if part {
                // Whatever the text before it had of quotes.
                self.quoted = Quoted::No;
            }
            if gave_up {
                self.given_up = self.given_up.min(self.depth);
            } else if self.depth < self.given_up {
                self.given_up = usize::MAX;
            }
            if self.frames.len() > MAX_FRAMES || self.frames.is_empty() && !self.done {
                return false;
            }
        }
        true
    }

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

    /// How deep values nest while a text follows.
    pub fn deepest(&self, out: &[u8]) -> usize {
        let mut end = Walk { calls: Vec::new(), frames: Vec::new(), text: Vec::new(), ..*self };
        let mut deepest = self.depth;
        for &byte in out {
            end.nest(byte);
            deepest = deepest.max(end.depth);
        }
        deepest
    }

    /// What decides what may follow, and the same wherever the same may: `None` where it depends on earlier keys or
    /// items, or on too much.
    pub fn name(&self, shapes: &Shapes) -> Option<Vec<u32>> {
        let mut name = vec![u32::from(self.done)];
        // Calls in the order in which they are come upon, so that their numbers say nothing of the text.
        let mut calls: Vec<u32> = Vec::new();
        let mut next = 0;
        let mut frames: &[Frame] = &self.frames;
        loop {
            for frame in frames {
                let call = calls.iter().position(|c| *c == frame.call).unwrap_or_else(|| {
                    calls.push(frame.call);
                    calls.len() - 1
                });
                name.extend([call as u32, frame.alt]);
                name.extend(frame.name(shapes)?);
            }
            name.push(u32::MAX);
            if name.len() > MAX_NAME {
                return None;
            }
            let Some(&call) = calls.get(next) else { return Some(name) };
            next += 1;
            frames = &self.calls[call as usize].parents;
        }
    }

    /// Whether the text stands within an array whose items differ.
    pub fn is_apart(&self, shapes: &Shapes) -> bool {
        self.has_given_up()
            || self.frames.iter().any(|f| {
                self.calls[f.call as usize].apart
                    || shapes.is_unique(f.alt) && matches!(f.place, Place::Items(..))
            })
    }

    /// Whether a grammar may still follow a way that is closed.
    fn has_given_up(&self) -> bool {
        self.given_up != usize::MAX
    }

    /// Whether the text stands within a string that can go on without end, whatever is written into it.
    pub fn is_endless(&self, shapes: &Shapes, scalars: &mut [Scalar]) -> bool {
        !self.has_given_up()
            && self.is_quoted(shapes)
            && self.frames.iter().all(|f| match &shapes.alts[f.alt as usize] {
                Alt::Scalar(id) => scalars[*id as usize].endless(),
                _ => false,
            })
    }

    /// Whether it is easily seen that the value can be completed without equal items, as it could at the mark: the items
    /// around had begun there, and the scalar that is being written has more ends than there are values that it, and
    /// whatever it is a part of, must differ from.
    pub fn is_free(&self, shapes: &Shapes, scalars: &mut [Scalar]) -> bool {
        self.frames.iter().any(|f| {
            let (Alt::Scalar(id), Place::Scalar(state)) = (&shapes.alts[f.alt as usize], &f.place) else {
                return false;
            };
            let Some(number) = self.kind(f) else { return false };
            let need = self.need(shapes, scalars, f.call);
            need.is_some_and(|need| scalars[*id as usize].is_rich(*state, need + 1, number))
        })
    }

    /// Whether a scalar is a number; `None` unless it is that or a string, and within escapes and exponents, where other
    /// ends need not make other values.
    fn kind(&self, frame: &Frame) -> Option<bool> {
        let text = self.text.get(self.calls[frame.call as usize].from..)?;
        match text.first()? {
            b'"' if text.iter().rev().take(5).any(|b| *b == b'\\') => None,
            b'"' => Some(false),
            b'-' | b'0'..=b'9' if !text.iter().any(|b| matches!(b, b'e' | b'E')) => Some(true),
            _ => None,
        }
    }

    /// How many values a value may not have, for the sake of the items before it and those that must still follow.
    fn need(&self, shapes: &Shapes, s: &mut [Scalar], call: u32) -> Option<u64> {
        let Call { parents, from, .. } = &self.calls[call as usize];
        let mut most = 0;
        for parent in parents {
            let own = match (&shapes.alts[parent.alt as usize], &parent.place) {
                _ if !shapes.is_unique(parent.alt) => 0,
                // With an item that ended since the mark the others may be impossible.
                _ if *from > self.marked => return None,
                (Alt::Array(a), Place::Items(k, taken)) => {
                    let left = a.min.saturating_sub(*k);
                    // There may be none that differ from those before, where the text could be read in another way.
                    if left > 0 && shapes.matched_end(s, parent.alt, *k, taken, 0).is_none() {
                        return None;
                    }
                    if left == 0 && self.differs(*from, taken) {
                        0
                    } else {
                        left + count(taken) as u64
                    }
                }
                _ => return None,
            };
            most = most.max(own.saturating_add(self.need(shapes, s, parent.call)?));
        }
        Some(most)
    }

    /// Whether a string that began at a byte differs already from all that are taken.
    fn differs(&self, from: usize, taken: &Taken) -> bool {
        let begun = self.text.get(from..).unwrap_or_default();
        // Without escapes there is one way to write a string.
        begun.first() == Some(&b'"') && !begun.contains(&b'\\') && !some(taken, &|key| key.starts_with(begun))
    }

    /// How many bytes may be written into the string that the text stands in, whatever they are unless they end it: up
    /// to `within`.
    pub fn room(&mut self, shapes: &Shapes, scalars: &mut [Scalar], within: usize) -> usize {
        self.marked = self.text.len();
        let [frame] = self.frames.as_slice() else { return 0 };
        let (Alt::Scalar(id), Place::Scalar(state)) = (&shapes.alts[frame.alt as usize], &frame.place) else {
            return 0;
        };
        if self.has_given_up() || self.kind(frame) != Some(false) {
            return 0;
        }
        match self.need(shapes, scalars, frame.call) {
            Some(0) => within,
            Some(need) => scalars[*id as usize].room(*state, need + 1, within),
            None => 0,
        }
    }

    /// Whether the text stands within a string.
    pub fn is_quoted(&self, shapes: &Shapes) -> bool {
        self.frames.iter().all(|f| {
            let scalar = matches!(shapes.alts[f.alt as usize], Alt::Scalar(_));
            scalar && self.text.get(self.calls[f.call as usize].from) == Some(&b'"')
        })
    }

    /// The texts of a scalar that could begin here, if nothing else could and they are at most `n`.
    pub fn choices(&self, shapes: &Shapes, scalars: &mut [Scalar], n: usize) -> Option<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for frame in self.frames.iter().filter(|f| self.calls[f.call as usize].from == self.text.len()) {
            let Alt::Scalar(id) = &shapes.alts[frame.alt as usize] else { return None };
            let scalar = &mut scalars[*id as usize];
            let start = scalar.start();
            for text in scalar.texts(start, n + 1, &mut |_| true) {
                if !found.contains(&text) {
                    found.push(text);
                }
            }
        }
        (found.len() <= n).then_some(found)
    }

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

    fn nest(&mut self, byte: u8) {
        match (self.quoted, byte) {
            (Quoted::No, b'"') => self.quoted = Quoted::Yes,
            (Quoted::No, b'[' | b'{') => self.depth += 1,
            (Quoted::No, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            (Quoted::Yes, b'"') => self.quoted = Quoted::No,
            (Quoted::Yes, b'\\') => self.quoted = Quoted::Escape,
            (Quoted::Escape, _) => self.quoted = Quoted::Yes,
            _ => {}
        }
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

impl Frame {
    /// The place as numbers, unless it depends on what stands before.
    fn name(&self, shapes: &Shapes) -> Option<[u32; 3]> {
        let small = |n: u64| u32::try_from(n).ok();
        Some(match &self.place {
            Place::Start => [0, 0, 0],
            Place::Scalar(state) => [1, state.as_u32(), 0],
            Place::Items(k, None) => {
                let k = match &shapes.alts[self.alt as usize] {
                    // Behind these all items are alike.
                    Alt::Array(a) if a.max.is_none() => (*k).min(a.min.max(a.prefix.len() as u64).max(1)),
                    _ => *k,
                };
                [2, small(k)?, 0]
            }
            Place::Fields { field, count, taken: None } => [3, small(*field as u64)?, small(*count)?],
            Place::Part(i) => [4, small(*i as u64)?, 0],
            Place::Key { field, at, count } => {
                let place = (*field as u64) << 32 | *at as u64;
                [5 + small(place >> 32)?.checked_mul(8)?, *at as u32, small(*count)?]
            }
            Place::Open { rest, state, count, taken: None, .. } => {
                [6 + small(*rest as u64)?.checked_mul(8)?, state.as_u32(), small(*count)?]
            }
            _ => return None,
        })
    }

    /// Whether two frames go on alike: at the same place among an array's items.
    fn is_at(&self, other: &Frame) -> bool {
        let same_taken = |a: &Taken, b: &Taken| keys(a) == keys(b);
        match (&self.place, &other.place) {
            (Place::Items(k, a), Place::Items(l, b)) => {
                k == l && self.call == other.call && self.alt == other.alt && same_taken(a, b)
            }
            _ => false,
        }
    }

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

impl<'a> Step<'a> {
    fn new(shapes: &'a Shapes, scalars: &'a mut [Scalar], calls: &'a mut Vec<Call>, text: &'a [u8]) -> Self {
        let (frames, begun, ended) = (Vec::new(), Vec::new(), Vec::new());
        Step {
            shapes,
            scalars,
            calls,
            text,
            frames,
            begun,
            ended,
            done: false,
            byte: 0,
            next: 0,
            gave_up: false,
            part: false,
        }
    }

    /// Begins a value after which `parent` goes on.
    fn call(&mut self, node: NodeId, parent: Option<Frame>) {
        let apart = parent
            .as_ref()
            .is_some_and(|p| self.calls[p.call as usize].apart || self.shapes.is_unique(p.alt));
        if let Some(&(_, call)) = self.begun.iter().find(|(n, _)| *n == node) {
            let call = &mut self.calls[call as usize];
            call.apart |= apart;
            let known = |p: &Frame| call.parents.iter().any(|q| q.is_at(p));
            if !parent.as_ref().is_some_and(known) {
                call.parents.extend(parent);
            }
            return;
        }
        let call = self.calls.len() as u32;
        self.calls.push(Call { node, parents: parent.into_iter().collect(), from: self.next, apart });
        self.begun.push((node, call));
        let shapes = self.shapes;
        for &alt in &shapes.nodes[self.calls[call as usize].node as usize].alts {
            match &shapes.alts[alt as usize] {
                Alt::Scalar(id) => {
                    let state = self.scalars[*id as usize].start();
                    self.frames.push(Frame { call, alt, place: Place::Scalar(state) });
                    // Only plain text can be empty.
                    self.done |= call == 0 && self.scalars[*id as usize].accepts(state);
                }
                Alt::Seq(parts) => {
                    if let Some(&first) = parts.first() {
                        self.call(first, Some(Frame { call, alt, place: Place::Part(1) }));
                    }
                }
                _ => self.frames.push(Frame { call, alt, place: Place::Start }),
            }
        }
    }

    fn end(&mut self, call: u32) {
        if self.ended.contains(&call) {
            return;
        }
        self.ended.push(call);
        self.done |= call == 0;
        let Call { parents, from, apart, .. } = self.calls[call as usize].clone();
        let (parents, from, apart) = (&parents, &from, &apart);
        let value =
            apart.then(|| same_as(&[self.text.get(*from..).unwrap_or_default(), &[self.byte]].concat()));
        for parent in parents {
            let Frame { call, alt, place } = parent;
            if let (Alt::Seq(parts), Place::Part(i)) = (&self.shapes.alts[*alt as usize], place) {
                self.part = true;
                match parts.get(*i) {
                    Some(&next) => {
                        self.call(next, Some(Frame { place: Place::Part(i + 1), ..parent.clone() }))
                    }
                    None => self.end(*call),
                }
                continue;
            }
            let place = match (place, &value) {
                (Place::Items(_, taken), Some(value)) if self.shapes.is_unique(*alt) && has(taken, value) => {
                    self.gave_up = true;
                    continue;
                }
                (Place::Items(k, taken), Some(value)) if self.shapes.is_unique(*alt) => {
                    Place::Items(*k, and(taken, value.clone()))
                }
                (place, _) => place.clone(),
            };
            let frame = Frame { call: *call, alt: *alt, place };
            // Different readings of the items before may have come to the same.
            if !matches!(self.shapes.alts[*alt as usize], Alt::Counted(_))
                || !self.frames.iter().any(|f| f.is_at(&frame))
            {
                self.frames.push(frame);
            }
        }
    }

    fn frame(&mut self, frame: Frame, byte: u8) {
        let Frame { call, alt, place } = frame;
        let at = |place| Frame { call, alt, place };
        let shapes = self.shapes;
        match (&shapes.alts[alt as usize], place) {
            (Alt::Scalar(id), Place::Scalar(state)) => {
                let scalar = &mut self.scalars[*id as usize];
                let Some(next) = scalar.step(state, byte) else { return };
                let accepts = scalar.accepts(next);
                self.frames.push(at(Place::Scalar(next)));
                if accepts {
                    self.end(call);
                }
            }
            (Alt::Array(_) | Alt::Counted(_), Place::Start) if byte == b'[' => {
                if shapes.may_close(alt, 0) {
                    self.frames.push(at(Place::Items(0, None)));
                }
                for (item, next) in shapes.next_items(alt, 0) {
                    self.call(item, Some(at(Place::Items(next, None))));
                }
            }
            (Alt::Array(_) | Alt::Counted(_), Place::Items(k, taken)) => match byte {
                b']' if shapes.may_close(alt, k) => self.end(call),
                b',' if k > 0 => {
                    for (item, next) in shapes.next_items(alt, k) {
                        self.call(item, Some(at(Place::Items(next, taken.clone()))));
                    }
                }
                _ => {}
            },
            (Alt::Object(o), Place::Start) if byte == o.brackets.0 => {
                self.frames.push(at(Place::Fields { field: 0, count: 0, taken: None }));
                self.keys(call, alt, o, 0, 0, &None);
            }
            (Alt::Object(o), Place::Fields { field, count, taken }) => match byte {
                _ if byte == o.brackets.1 && o.may_end(field, count) => self.end(call),
                b',' if count > 0 => self.keys(call, alt, o, field, count, &taken),
                _ => {}
            },
            (Alt::Object(o), Place::Key { field, at: written, count }) => {
                let (key, node, _) = &o.fields[field];
                match key.get(written) {
                    Some(&b) if b == byte && written + 1 == key.len() => {
                        let (field, count) = (field + 1, o.after(count));
                        self.call(*node, Some(at(Place::Fields { field, count, taken: None })));
                    }
                    Some(&b) if b == byte => {
                        self.frames.push(at(Place::Key { field, at: written + 1, count }));
                    }
                    _ => {}
                }
            }
            (Alt::Object(o), Place::Open { rest, state, from, count, taken }) => {
                let (key, node) = o.rest[rest];
                let scalar = &mut self.scalars[key as usize];
                if byte == b':' && scalar.accepts(state) {
                    let key = self.text[from..].to_vec();
                    if !is_taken(&keys(&taken), &key) {
                        let taken = and(&taken, key);
                        let place = Place::Fields { field: o.fields.len(), count: count + 1, taken };
                        self.call(node, Some(at(place)));
                    }
                } else if let Some(state) = scalar.step(state, byte) {
                    self.frames.push(at(Place::Open { rest, state, from, count, taken }));
                }
            }
            _ => {}
        }
    }

    /// Keys that may begin after this byte.
    fn keys(&mut self, call: u32, alt: AltId, o: &Object, field: usize, count: u64, taken: &Taken) {
        for field in o.next_fields(self.shapes, field, count) {
            self.frames.push(Frame { call, alt, place: Place::Key { field, at: 0, count } });
        }
        if !o.opens(field, count) {
            return;
        }
        for (rest, (key, value)) in o.rest.iter().enumerate() {
            if self.shapes.min(*value) < NEVER {
                let state = self.scalars[*key as usize].start();
                let from = self.text.len() + 1;
                let place = Place::Open { rest, state, from, count, taken: taken.clone() };
                self.frames.push(Frame { call, alt, place });
            }
        }
    }
}
