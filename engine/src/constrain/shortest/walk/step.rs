//! One byte further, in all ways that the text before it can be read.

use super::super::scalar::Scalar;
use super::super::sequence::{and, has, keys, Taken};
use super::super::shape::{is_taken, Alt, AltId, NodeId, Object, Shapes, NEVER};
use super::{Call, Frame, Place};
use crate::constrain::unique::same_as;

/// What a step works on.
pub(super) struct Step<'a> {
    shapes: &'a Shapes,
    scalars: &'a mut [Scalar],
    calls: &'a mut Vec<Call>,
    text: &'a [u8],
    pub(super) frames: Vec<Frame>,
    /// Calls that began with this byte.
    begun: Vec<(NodeId, u32)>,
    /// Calls that ended with it.
    ended: Vec<u32>,
    pub(super) done: bool,
    pub(super) byte: u8,
    /// Where calls begin that begin now: behind the byte that is being read.
    pub(super) next: usize,
    /// Whether a way to read an array ended because of equal items.
    pub(super) gave_up: bool,
    /// Whether a part of several began.
    pub(super) part: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(
        shapes: &'a Shapes,
        scalars: &'a mut [Scalar],
        calls: &'a mut Vec<Call>,
        text: &'a [u8],
    ) -> Self {
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
    pub(super) fn call(&mut self, node: NodeId, parent: Option<Frame>) {
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

    pub(super) fn frame(&mut self, frame: Frame, byte: u8) {
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
