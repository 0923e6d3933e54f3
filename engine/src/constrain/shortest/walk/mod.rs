//! Follows the text of a value through its shapes, byte by byte, in all ways that it can be read.

mod apart;
mod completion;
mod name;
mod step;

use super::scalar::Scalar;
use super::sequence::{keys, Taken};
use super::shape::{Alt, AltId, NodeId, Shapes};
use llguidance::derivre::StateID;
use step::Step;

/// Ways to read one text. Types of which more are possible cannot be steered.
const MAX_FRAMES: usize = 50_000;

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
}

impl Frame {
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
}
