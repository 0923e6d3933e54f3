//! The shortest way to the end of a scalar.

use crate::constrain::stop;
use crate::constrain::unique::same_as;
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
/// Bytes of the ends that are counted where it only matters that there are many, and states that they lead to.
const MAX_RICH: usize = 12;
const MAX_RICH_STATES: usize = 100;
/// Bytes of the longest escape behind its backslash.
pub(in crate::constrain) const ESCAPED: usize = 5;
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
    /// Texts of different values of the whole language, short ones first, and how many were asked for.
    listed: (usize, Vec<Vec<u8>>),
    gave_up: bool,
    /// How many bytes are in the class of each of `bytes`, without the backslash.
    sizes: Vec<u64>,
    /// Of states met so far whether they have so many different ends.
    rich: HashMap<(StateID, u64, bool), bool>,
}

impl Scalar {
    pub fn new(ast: &RegexAst) -> Result<Self> {
        let mut builder = RegexBuilder::new();
        let complex = |_| Error::ty("", "pattern", "a pattern is too complex to be steered to its end");
        let expr = builder.mk(ast).map_err(complex)?;
        let regex = builder.to_regex_limited(expr, FUEL).map_err(complex)?;
        let (bytes, ascii) = representatives(&regex);
        let (ways, listed) = (HashMap::new(), (0, Vec::new()));
        let mut sizes = vec![0; bytes.len()];
        for byte in (0..=255u8).filter(|b| *b != b'\\') {
            let class = regex.alpha().map(byte);
            if let Some(i) = bytes.iter().position(|b| regex.alpha().map(*b) == class) {
                sizes[i] += 1;
            }
        }
        let rich = HashMap::new();
        Ok(Scalar { regex, bytes, ascii, ways, endless: None, listed, gave_up: false, sizes, rich })
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
        self.texts(state, 1, &mut |text| !taken(text)).pop()
    }

    /// Texts of `n` different values of the language, short ones first; of all there are, if fewer.
    pub fn first(&mut self, n: usize) -> Vec<Vec<u8>> {
        if self.listed.0 < n {
            // Twice as many as last time, so that asking for one more each time stays cheap.
            let more = n.max(2 * self.listed.0);
            let start = self.start();
            self.listed = (more, self.values(start, more, &[]));
        }
        self.listed.1.iter().take(n).cloned().collect()
    }

    /// `n` ends of a text in a state, of different values, short ones first; all there are, if fewer. `before` is the
    /// text so far.
    pub fn values(&mut self, state: StateID, n: usize, before: &[u8]) -> Vec<Vec<u8>> {
        // Of numbers many texts have one value: 0, 0.0, 0.00.
        let mut seen = HashSet::new();
        self.texts(state, n, &mut |end| seen.insert(same_as(&[before, end].concat())))
    }

    /// Whether a search for texts has been given up, so that there may be more.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// `n` ends of a text in a state, short ones first, of those that are `wanted`; all there are, if fewer.
    pub fn texts(&mut self, state: StateID, n: usize, wanted: &mut dyn FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
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
                self.gave_up = true;
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

    /// Whether a text in a state has at least `need` ends that make different values of it, as far as is easily seen: ends
    /// of a string without escapes, or ends of a number that are digits, the last of them no zero.
    pub fn is_rich(&mut self, state: StateID, need: u64, number: bool) -> bool {
        if need <= 1 {
            return self.distance(state).is_some();
        }
        let key = (state, need, number);
        if let Some(known) = self.rich.get(&key) {
            return *known;
        }
        let known = self.find_rich(state, need, number);
        self.rich.insert(key, known);
        known
    }

    fn find_rich(&mut self, state: StateID, need: u64, number: bool) -> bool {
        // Of each state the number of texts that lead to it, by length; a state is accepting in one way or another
        // according to the last byte.
        let mut ways: Vec<(StateID, u64)> = vec![(state, 1)];
        let mut found = u64::from(self.accepts(state));
        for _ in 0..MAX_RICH {
            let mut next: Vec<(StateID, u64)> = Vec::new();
            for (state, count) in ways {
                for i in 0..if number { 10 } else { self.bytes.len() } {
                    let (byte, size) =
                        if number { (b'0' + i as u8, 1) } else { (self.bytes[i], self.sizes[i]) };
                    let Some(to) = self.step(state, byte).filter(|_| size > 0) else { continue };
                    let count = count.saturating_mul(size);
                    if self.accepts(to) && !(number && byte == b'0') {
                        found = found.saturating_add(count);
                    }
                    match next.iter_mut().find(|(s, _)| *s == to) {
                        Some((_, n)) => *n = n.saturating_add(count),
                        None => next.push((to, count)),
                    }
                }
            }
            if found >= need || next.is_empty() || next.len() > MAX_RICH_STATES {
                break;
            }
            ways = next;
        }
        found >= need
    }

    /// How many bytes may follow in a string, whatever they are unless they end it or begin an escape, so that it still is
    /// rich: `within` at most. The state is not within an escape. Bytes with escapes are [`ESCAPED`] fewer.
    pub fn room(&mut self, state: StateID, need: u64, within: usize) -> usize {
        let mut seen = HashSet::from([state]);
        // With the bytes of an escape that are still to come; what they stand for is told only behind them.
        let mut level = vec![(state, 0usize)];
        for bytes in 0..=within {
            let mut next = Vec::new();
            for (state, escape) in std::mem::take(&mut level) {
                if escape == 0 && !self.is_rich(state, need, false) {
                    return bytes.saturating_sub(1);
                }
                for i in 0..self.bytes.len() {
                    let byte = self.bytes[i];
                    let Some(to) = self.step(state, byte) else { continue };
                    let escape = match (escape, byte) {
                        (0, b'\\') => ESCAPED,
                        (0, _) => 0,
                        (5, b'u') => 4,
                        (5, _) => 0,
                        (left, _) => left - 1,
                    };
                    if !(byte == b'"' && self.accepts(to)) && seen.insert(to) {
                        next.push((to, escape));
                    }
                }
            }
            level = next;
        }
        within.saturating_sub(1)
    }

    fn way(&mut self, state: StateID) -> Option<(u64, u8)> {
        if let Some(way) = self.ways.get(&state) {
            return *way;
        }
        // Most languages have an end in ASCII, and the search for it is much smaller.
        let all = self.bytes.len();
        let found = self.search(state, self.ascii) || self.search(state, all) || self.dive(state, all);
        // A search that was given up says nothing.
        if !found && stop::look().is_ok() {
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
            if stop::check().is_err() {
                return false;
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

    /// Depth first, to the same: for languages with so many beginnings that the other search does not come to an end,
    /// such as thousands of words.
    fn dive(&mut self, from: StateID, n_bytes: usize) -> bool {
        let mut path: Vec<(StateID, usize)> = vec![(from, 0)];
        let (mut seen, mut looked) = (HashSet::from([from]), 0);
        while let Some((state, i)) = path.last_mut() {
            let (state, byte) = (*state, self.bytes.get(*i).copied().filter(|_| *i < n_bytes));
            *i += 1;
            let known = match self.ways.get(&state) {
                _ if self.regex.is_accepting(state) => Some((0, 0)),
                Some(way) => *way,
                None => None,
            };
            if let Some((mut left, byte)) = known {
                self.ways.insert(state, Some((left, byte)));
                path.pop();
                while let Some((state, next)) = path.pop() {
                    left += 1;
                    self.ways.insert(state, Some((left, self.bytes[next - 1])));
                }
                return true;
            }
            let Some(byte) = byte else {
                path.pop();
                continue;
            };
            looked += 1;
            if looked > MAX_SEARCH || stop::check().is_err() {
                return false;
            }
            let next = self.regex.transition(state, byte);
            if !next.is_dead() && seen.insert(next) {
                path.push((next, 0));
            }
        }
        false
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
