//! Keeps control tokens that are written in content from becoming control tokens.
//!
//! A marker character that occurs nowhere in the conversation is put inside every control-token literal found
//! in a string of the conversation. The template carries it along; the tokenizer cuts the rendered text at
//! control tokens, which marked literals no longer are, and takes the markers out of what is between.

use crate::error::{Error, Result};
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// Deeper conversations are refused: walking them recurses.
const MAX_DEPTH: usize = 128;

/// How large a conversation is, for the bounds of its rendering.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Size {
    /// Values in it.
    pub(super) nodes: u64,
    /// Bytes of its strings and keys.
    pub(super) bytes: u64,
}

impl Size {
    /// Adds a value; an error if it is nested too deeply.
    pub(super) fn add(&mut self, value: &Value, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid("chat", format!("a value is nested deeper than {MAX_DEPTH} levels")));
        }
        self.nodes += 1;
        match value {
            Value::String(s) => self.bytes += s.len() as u64,
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1))?,
            Value::Object(map) => {
                for (key, item) in map {
                    self.bytes += key.len() as u64;
                    self.add(item, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Puts markers into the strings of a conversation.
pub(super) struct Marker<'n> {
    literals: AhoCorasick,
    names: &'n [&'n str],
    longest: usize,
    character: char,
    used: bool,
}

impl<'n> Marker<'n> {
    /// `None` if there is nothing to look for. `absent` says whether a character occurs nowhere.
    pub(super) fn new(names: &'n [&'n str], absent: impl Fn(char) -> bool) -> Result<Option<Self>> {
        let named = names.iter().filter(|n| !n.is_empty());
        if named.clone().next().is_none() {
            return Ok(None);
        }
        let literals = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(named)
            .map_err(|e| Error::Internal(e.to_string()))?;
        let longest = names.iter().map(|n| n.len()).max().unwrap_or(0);
        // The private use area: no text means anything by these.
        let character = ('\u{E000}'..='\u{F8FF}')
            .find(|&c| absent(c))
            .ok_or_else(|| Error::invalid("chat", "it uses every private-use character; say trusted"))?;
        Ok(Some(Marker { literals, names, longest, character, used: false }))
    }

    /// The marker, if any was put anywhere.
    pub(super) fn used(&self) -> Option<char> {
        self.used.then_some(self.character)
    }

    /// A string with markers in it, where needed.
    pub(super) fn string(&mut self, s: &str) -> String {
        let mut marked = String::with_capacity(s.len());
        let mut done = 0;
        // Every place where a literal starts, also inside another one.
        let mut from = 0;
        while let Some(found) = self.literals.find(aho_corasick::Input::new(s).range(from..)) {
            let first = s[found.start()..].chars().next().map_or(1, char::len_utf8);
            let inside = found.start() + first;
            marked.push_str(&s[done..inside]);
            marked.push(self.character);
            self.used = true;
            done = inside;
            from = inside;
        }
        marked.push_str(&s[done..]);
        // A literal that only its neighbour in the rendered text completes.
        if self.has_open_end(&s[done..]) {
            marked.push(self.character);
            self.used = true;
        }
        marked
    }

    /// Whether the end of a string cuts off a literal.
    fn has_open_end(&self, s: &str) -> bool {
        let from = s.len().saturating_sub(self.longest);
        s.char_indices()
            .map(|(at, _)| &s[at..])
            .filter(|tail| s.len() - tail.len() >= from)
            .any(|tail| self.names.iter().any(|n| n.len() > tail.len() && n.starts_with(tail)))
    }
}
