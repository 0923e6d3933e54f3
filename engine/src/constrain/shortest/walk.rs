//! Follows the text of a value through its shapes, byte by byte, in all ways that it can be read.

use super::scalar::Scalar;
use super::shape::{is_taken, Alt, AltId, NodeId, Object, Shapes, NEVER};
use llguidance::derivre::StateID;
use std::sync::Arc;

/// Ways to read one text. Types of which more are possible cannot be steered.
const MAX_FRAMES: usize = 50_000;

/// A node begun at some byte, and what goes on when it ends.
#[derive(Clone)]
struct Call {
    node: NodeId,
    parents: Vec<Frame>,
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
    /// After so many items, or directly after the bracket.
    Items(u64),
    /// Before a field, after so many properties.
    Fields {
        field: usize,
        count: u64,
        taken: Taken,
    },
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

/// Unnamed keys of an object.
type Taken = Option<Arc<TakenKey>>;

pub(super) struct TakenKey {
    key: Vec<u8>,
    before: Taken,
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
}

/// Where a walk can go back to.
pub(super) struct Mark {
    calls: usize,
    frames: Vec<Frame>,
    done: bool,
    text: usize,
    depth: usize,
    quoted: Quoted,
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
}

impl Walk {
    /// At the start of a value of node 0.
    pub fn new(shapes: &Shapes, scalars: &mut [Scalar]) -> Self {
        let mut calls = Vec::new();
        let mut step = Step::new(shapes, scalars, &mut calls, &[]);
        step.call(0, None);
        let (frames, done) = (step.frames, step.done);
        Walk { calls, frames, done, text: Vec::new(), depth: 0, quoted: Quoted::No }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            calls: self.calls.len(),
            frames: self.frames.clone(),
            done: self.done,
            text: self.text.len(),
            depth: self.depth,
            quoted: self.quoted,
        }
    }

    /// Back to a mark made before.
    pub fn back(&mut self, mark: Mark) {
        // Parents are added to a call only while its first byte is read, so older calls are as they were.
        self.calls.truncate(mark.calls);
        self.text.truncate(mark.text);
        self.frames = mark.frames;
        (self.done, self.depth, self.quoted) = (mark.done, mark.depth, mark.quoted);
    }

    /// Moves on. `false` if no value goes on so.
    pub fn advance(&mut self, shapes: &Shapes, scalars: &mut [Scalar], bytes: &[u8]) -> bool {
        for &byte in bytes {
            let frames = std::mem::take(&mut self.frames);
            let mut step = Step::new(shapes, scalars, &mut self.calls, &self.text);
            for frame in frames {
                step.frame(frame, byte);
            }
            (self.frames, self.done) = (step.frames, step.done);
            self.text.push(byte);
            self.nest(byte);
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
        let mut end = Walk { calls: Vec::new(), frames: Vec::new(), text: Vec::new(), ..*self };
        let mut deepest = self.depth;
        for &byte in &out {
            end.nest(byte);
            deepest = deepest.max(end.depth);
        }
        Some((out, deepest))
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
            (Alt::Array(a), Place::Items(k)) => shapes.write_items(s, a, *k, out, 0),
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
    /// Bytes to the end of the array or object, from between two of its values.
    fn after_cost(&self, shapes: &Shapes) -> u64 {
        match (&shapes.alts[self.alt as usize], &self.place) {
            (Alt::Array(a), Place::Items(k)) => a.close(*k),
            (Alt::Object(o), Place::Fields { field, count, .. }) => o.close(*field, *count),
            _ => NEVER,
        }
    }
}

impl<'a> Step<'a> {
    fn new(shapes: &'a Shapes, scalars: &'a mut [Scalar], calls: &'a mut Vec<Call>, text: &'a [u8]) -> Self {
        let (frames, begun, ended) = (Vec::new(), Vec::new(), Vec::new());
        Step { shapes, scalars, calls, text, frames, begun, ended, done: false }
    }

    /// Begins a value after which `parent` goes on.
    fn call(&mut self, node: NodeId, parent: Option<Frame>) {
        if let Some(&(_, call)) = self.begun.iter().find(|(n, _)| *n == node) {
            self.calls[call as usize].parents.extend(parent);
            return;
        }
        let call = self.calls.len() as u32;
        self.calls.push(Call { node, parents: parent.into_iter().collect() });
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
        let parents = self.calls[call as usize].parents.clone();
        self.frames.extend(parents);
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
            (Alt::Array(a), Place::Start) if byte == b'[' => {
                if a.min == 0 {
                    self.frames.push(at(Place::Items(0)));
                }
                if a.goes_on(shapes, 0) {
                    self.call(a.item(0), Some(at(Place::Items(1))));
                }
            }
            (Alt::Array(a), Place::Items(k)) => match byte {
                b']' if k >= a.min => self.end(call),
                b',' if k > 0 && a.goes_on(shapes, k) => {
                    self.call(a.item(k), Some(at(Place::Items(k + 1))));
                }
                _ => {}
            },
            (Alt::Object(o), Place::Start) if byte == b'{' => {
                self.frames.push(at(Place::Fields { field: 0, count: 0, taken: None }));
                self.keys(call, alt, o, 0, 0, &None);
            }
            (Alt::Object(o), Place::Fields { field, count, taken }) => match byte {
                b'}' if o.may_end(field, count) => self.end(call),
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
                        let taken = Some(Arc::new(TakenKey { key, before: taken }));
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

fn keys(taken: &Taken) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut next = taken;
    while let Some(t) = next {
        keys.push(t.key.clone());
        next = &t.before;
    }
    keys
}

impl Drop for TakenKey {
    /// Not one within the other: an object may have very many keys.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(Ok(mut only)) = next.map(Arc::try_unwrap) {
            next = only.before.take();
        }
    }
}
