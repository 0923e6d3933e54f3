//! What can be told of items that must differ without looking for a completion.

use super::super::scalar::Scalar;
use super::super::sequence::{count, some, Taken};
use super::super::shape::{Alt, NodeId, Shapes};
use super::{Call, Frame, Place, Walk};

impl Walk {
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
                    let (left, before) = (a.min.saturating_sub(*k), count(taken) as u64);
                    // Where those that must follow have values to spare, they do not mind what this one is.
                    let spare = left == 0
                        || *k >= a.prefix.len() as u64 && is_rich(shapes, s, a.rest, before + left + 1);
                    // There may be none that differ from those before, where the text could be read in another way.
                    if !spare && shapes.matched_end(s, parent.alt, *k, taken, 0).is_none() {
                        return None;
                    }
                    match spare {
                        true if self.differs(*from, taken) => 0,
                        true => before,
                        false => left + before,
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
}

/// Whether it is easily seen that a node has so many different values: strings, or numbers.
fn is_rich(shapes: &Shapes, s: &mut [Scalar], node: NodeId, need: u64) -> bool {
    shapes.nodes[node as usize].alts.iter().any(|alt| {
        let Alt::Scalar(id) = shapes.alts[*alt as usize] else { return false };
        let scalar = &mut s[id as usize];
        let start = scalar.start();
        let quoted = scalar.step(start, b'"');
        quoted.is_some_and(|state| scalar.is_rich(state, need, false)) || scalar.is_rich(start, need, true)
    })
}
