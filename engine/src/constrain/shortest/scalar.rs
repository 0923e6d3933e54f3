//! The shortest way to the end of a scalar.

use crate::error::{Error, Result};
use llguidance::derivre::{Regex, RegexAst, RegexBuilder, StateID};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// Work that the automaton of one scalar may cost when it is made.
const FUEL: u64 = 5_000_000;
/// Transitions that a search may look at; a string of at least some thousand characters needs these.
const MAX_SEARCH: usize = 400_000;
/// Transitions looked at after a first way was found, in the hope of a shorter one.
const MAX_AFTER_FIRST: usize = 3_000;
/// Beginnings that are looked at to find texts that are not taken yet.
const MAX_TAKEN: usize = 50_000;
/// States of a language that is looked through for loops.
const MAX_ENDLESS: usize = 300;

/// A regular language, and for the states met so far the next byte of a short way to its end.
///
/// The ways are short, not always the shortest: what counts is that each of them exists.
pub(super) struct Scalar {
    regex: Regex,
    /// One byte of each class that the language tells apart, ASCII ones first.
    bytes: Vec<u8>,
    /// How many of `bytes` are ASCII.
    ascii: usize,
    /// Bytes left, and the next of them.
    ways: HashMap<StateID, Option<(u64, u8)>>,
    endless: Option<bool>,
    /// Texts of the whole language, short ones first, and how many were asked for.
    listed: (usize, Vec<Vec<u8>>),
}

impl Scalar {
    pub fn new(ast: &RegexAst) -> Result<Self> {
        let mut builder = RegexBuilder::new();
        let complex = |_| Error::ty("", "pattern", "a pattern is too complex to be steered to its end");
        let expr = builder.mk(ast).map_err(complex)?;
        let regex = builder.to_regex_limited(expr, FUEL).map_err(complex)?;
        let (bytes, ascii) = representatives(&regex);
        Ok(Scalar { regex, bytes, ascii, ways: HashMap::new(), endless: None, listed: (0, Vec::new()) })
    }

    pub fn start(&mut self) -> StateID {
        self.regex.initial_state()
    }

    /// The state after a byte; `None` if nothing of the language goes on so.
    pub fn step(&mut self, state: StateID, byte: u8) -> Option<StateID> {
        Some(self.regex.transition(state, byte)).filter(|s| !s.is_dead())
    }

    pub fn accepts(&mut self, state: StateID) -> bool {
        self.regex.is_accepting(state)
    }

    /// Bytes from a state to the end.
    pub fn distance(&mut self, state: StateID) -> Option<u64> {
        self.way(state).map(|(left, _)| left)
    }

    /// Appends those bytes; `false` if there is no way.
    pub fn write(&mut self, mut state: StateID, out: &mut Vec<u8>) -> bool {
        loop {
            match self.way(state) {
                Some((0, _)) => return true,
                Some((_, byte)) => {
                    out.push(byte);
                    state = self.regex.transition(state, byte);
                }
                None => return false,
            }
        }
    }

    /// A short end of a text in a state such that the whole is not `taken`.
    pub fn write_untaken(&mut self, state: StateID, taken: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut first = Vec::new();
        if self.write(state, &mut first) && !taken(&first) {
            return Some(first);
        }
        self.texts(state, 1, &|text| !taken(text)).pop()
    }

    /// `n` texts of the language, or a few more, short ones first; all there are, if fewer.
    pub fn first(&mut self, n: usize) -> Vec<Vec<u8>> {
        if self.listed.0 < n {
            // Twice as many as last time, so that asking for one more each time stays cheap.
            let more = n.max(2 * self.listed.0);
            let start = self.start();
            self.listed = (more, self.texts(start, more, &|_| true));
        }
        self.listed.1.iter().take(n).cloned().collect()
    }

    /// `n` ends of a text in a state, short ones first, of those that are `wanted`; all there are, if fewer.
    pub fn texts(&mut self, state: StateID, n: usize, wanted: &dyn Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let Some(least) = self.distance(state) else { return found };
        // By length in the end; of two that are alike the one that is further.
        let mut states = vec![state];
        let mut todo = BinaryHeap::from([(Reverse(least), 0u64, Reverse(Vec::new()), 0usize)]);
        let mut seen = 0;
        while let Some((_, length, Reverse(text), at)) = todo.pop() {
            let state = states[at];
            if self.accepts(state) && wanted(&text) {
                found.push(text.clone());
                if found.len() >= n {
                    break;
                }
            }
            seen += 1;
            if seen > MAX_TAKEN {
                break;
            }
            for byte in 0..=255u8 {
                let Some(next) = self.step(state, byte) else { continue };
                if let Some(left) = self.distance(next) {
                    let longer = [text.as_slice(), &[byte]].concat();
                    todo.push((Reverse(length + 1 + left), length + 1, Reverse(longer), states.len()));
                    states.push(next);
                }
            }
        }
        found
    }

    /// Whether, wherever a text of the language stands before its last byte, it can go on without end.
    pub fn endless(&mut self) -> bool {
        if let Some(known) = self.endless {
            return known;
        }
        let known = self.find_endless();
        self.endless = Some(known);
        known
    }

    fn find_endless(&mut self) -> bool {
        let start = self.start();
        let mut next: Vec<(StateID, Vec<StateID>)> = Vec::new();
        let mut seen = HashSet::from([start]);
        let mut todo = vec![start];
        while let Some(state) = todo.pop() {
            if seen.len() > MAX_ENDLESS {
                return false;
            }
            let mut after = Vec::new();
            for i in 0..self.bytes.len() {
                let byte = self.bytes[i];
                let Some(to) = self.step(state, byte) else { continue };
                if self.distance(to).is_some() {
                    after.push(to);
                    if seen.insert(to) {
                        todo.push(to);
                    }
                }
            }
            next.push((state, after));
        }
        // What is left when states that lead nowhere are taken away leads to a loop.
        let mut endless = seen;
        loop {
            let before = endless.len();
            for (state, after) in &next {
                if !after.iter().any(|to| endless.contains(to)) {
                    endless.remove(state);
                }
            }
            if endless.len() == before {
                break;
            }
        }
        next.iter().all(|(state, after)| after.is_empty() || endless.contains(state))
    }

    fn way(&mut self, state: StateID) -> Option<(u64, u8)> {
        if let Some(way) = self.ways.get(&state) {
            return *way;
        }
        // Most languages have an end in ASCII, and the search for it is much smaller.
        let found = self.search(state, self.ascii) || self.search(state, self.bytes.len());
        if !found {
            self.ways.insert(state, None);
        }
        self.ways.get(&state).copied().flatten()
    }

    /// Breadth first, to an accepting state or one whose way is known; keeps the ways along the path found.
    fn search(&mut self, from: StateID, n_bytes: usize) -> bool {
        let mut before: HashMap<StateID, (StateID, u8)> = HashMap::new();
        let mut todo = VecDeque::from([(from, 0u64)]);
        let mut best: Option<(u64, StateID)> = None;
        let (mut looked, mut limit) = (0, MAX_SEARCH);
        while let Some((state, depth)) = todo.pop_front() {
            if best.is_some_and(|(total, _)| depth >= total) || looked > limit {
                break;
            }
            let left = match self.ways.get(&state) {
                _ if self.regex.is_accepting(state) => Some(0),
                Some(Some((left, _))) => Some(*left),
                Some(None) => continue,
                None => None,
            };
            if let Some(left) = left {
                if best.is_none_or(|(total, _)| depth + left < total) {
                    limit = limit.min(looked + MAX_AFTER_FIRST);
                    best = Some((depth + left, state));
                }
                continue;
            }
            for i in 0..n_bytes {
                let byte = self.bytes[i];
                let next = self.regex.transition(state, byte);
                looked += 1;
                if !next.is_dead() && next != from && !before.contains_key(&next) {
                    before.insert(next, (state, byte));
                    todo.push_back((next, depth + 1));
                }
            }
        }
        let Some((_, mut state)) = best else { return false };
        let mut left = match self.ways.get(&state) {
            Some(Some((left, _))) if !self.regex.is_accepting(state) => *left,
            _ => {
                self.ways.insert(state, Some((0, 0)));
                0
            }
        };
        while let Some(&(previous, byte)) = before.get(&state) {
            left += 1;
            self.ways.insert(previous, Some((left, byte)));
            state = previous;
        }
        true
    }
}

/// One byte of each class, those that people like to read first.
fn representatives(regex: &Regex) -> (Vec<u8>, usize) {
    let liked = [b'"'].into_iter().chain(b'a'..=b'z').chain(b'0'..=b'9').chain(b'A'..=b'Z');
    let printable = b' '..=b'~';
    let control = 0..b' ';
    let mut seen = [false; 256];
    let mut bytes = Vec::new();
    for byte in liked.chain(printable).chain(control).chain([127]) {
        if !std::mem::replace(&mut seen[regex.alpha().map(byte)], true) {
            bytes.push(byte);
        }
    }
    let ascii = bytes.len();
    for byte in 128..=255u8 {
        if !std::mem::replace(&mut seen[regex.alpha().map(byte)], true) {
            bytes.push(byte);
        }
    }
    (bytes, ascii)
}
