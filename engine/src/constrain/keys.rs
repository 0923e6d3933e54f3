//! Distinct keys. A context-free grammar cannot say that the keys of an object differ where the type leaves
//! them open, so this follows the text beside it and takes away the tokens that would repeat one.

use std::collections::HashSet;

/// Where a text of compact, valid JSON stands, and the keys of the objects that are open there.
#[derive(Clone, Default)]
pub(super) struct Keys {
    position: Position,
    /// Open objects (their keys so far) and arrays (none).
    open: Vec<Option<HashSet<Vec<u8>>>>,
}

#[derive(Clone, Default)]
struct Position {
    state: State,
    /// The key that is being written, as in the text, without quotes.
    key: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    /// Before or between values.
    #[default]
    Between,
    /// In an object, where a key or the end comes.
    BeforeKey,
    Key,
    KeyEscape,
    Text,
    TextEscape,
}

/// The objects and arrays around a position.
trait Around {
    fn enter(&mut self, object: bool);
    fn leave(&mut self);
    fn in_object(&self) -> bool;
    /// `false` if the object has the key already.
    fn add(&mut self, key: Vec<u8>) -> bool;
}

impl Keys {
    /// Whether a token could repeat a key here at all.
    pub fn matter(&self) -> bool {
        self.open.iter().flatten().any(|keys| !keys.is_empty())
    }

    /// Whether no key is repeated within the bytes, from here on.
    pub fn allow(&self, bytes: &[u8]) -> bool {
        let mut position = self.position.clone();
        let mut ahead = Ahead { below: &self.open, added: Vec::new(), entered: Vec::new() };
        bytes.iter().all(|&b| position.step(b, &mut ahead))
    }

    /// Moves on over bytes of the value.
    pub fn advance(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.position.step(b, &mut self.open);
        }
    }
}

impl Around for Vec<Option<HashSet<Vec<u8>>>> {
    fn enter(&mut self, object: bool) {
        self.push(object.then(HashSet::new));
    }
    fn leave(&mut self) {
        self.pop();
    }
    fn in_object(&self) -> bool {
        matches!(self.last(), Some(Some(_)))
    }
    fn add(&mut self, key: Vec<u8>) -> bool {
        match self.last_mut() {
            Some(Some(keys)) => keys.insert(key),
            _ => true,
        }
    }
}

/// A look ahead that leaves what is below untouched.
struct Ahead<'a> {
    below: &'a [Option<HashSet<Vec<u8>>>],
    /// Keys added to the innermost of `below`.
    added: Vec<Vec<u8>>,
    entered: Vec<Option<HashSet<Vec<u8>>>>,
}

impl Around for Ahead<'_> {
    fn enter(&mut self, object: bool) {
        self.entered.enter(object);
    }
    fn leave(&mut self) {
        if self.entered.pop().is_none() {
            self.below = self.below.split_last().map_or(&[], |(_, rest)| rest);
            self.added.clear();
        }
    }
    fn in_object(&self) -> bool {
        matches!(self.entered.last().or(self.below.last()), Some(Some(_)))
    }
    fn add(&mut self, key: Vec<u8>) -> bool {
        if !self.entered.is_empty() {
            return self.entered.add(key);
        }
        let known =
            matches!(self.below.last(), Some(Some(keys)) if keys.contains(&key)) || self.added.contains(&key);
        self.added.push(key);
        !known
    }
}

impl Position {
    /// `false` if the byte ends a key that was there before.
    fn step(&mut self, b: u8, around: &mut dyn Around) -> bool {
        match self.state {
            State::Between => match b {
                b'"' => self.state = State::Text,
                b'{' => {
                    around.enter(true);
                    self.state = State::BeforeKey;
                }
                b'[' => around.enter(false),
                b'}' | b']' => around.leave(),
                b',' if around.in_object() => self.state = State::BeforeKey,
                _ => {}
            },
            State::BeforeKey if b == b'"' => {
                self.key.clear();
                self.state = State::Key;
            }
            State::BeforeKey => {
                around.leave();
                self.state = State::Between;
            }
            State::Key if b == b'"' => {
                self.state = State::Between;
                return around.add(canonical(std::mem::take(&mut self.key)));
            }
            State::Key => {
                self.key.push(b);
                if b == b'\\' {
                    self.state = State::KeyEscape;
                }
            }
            State::KeyEscape => {
                self.key.push(b);
                self.state = State::Key;
            }
            State::Text => match b {
                b'"' => self.state = State::Between,
                b'\\' => self.state = State::TextEscape,
                _ => {}
            },
            State::TextEscape => self.state = State::Text,
        }
        true
    }
}

/// One spelling for each key: `\n` and `\u000a` are the same.
fn canonical(key: Vec<u8>) -> Vec<u8> {
    if !key.contains(&b'\\') {
        return key;
    }
    let quoted = [b"\"", key.as_slice(), b"\""].concat();
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => text.into_bytes(),
        Err(_) => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_seen_wherever_they_end() {
        for (before, bytes, want) in [
            ("{\"a\":1", ",\"a\":", false),
            ("{\"a\":1", ",\"b\":", true),
            ("{\"a\":1,\"", "a\"", false),
            ("{\"a\":1,\"", "a", true),
            ("{\"a\":1,\"a", "\":2", false),
            ("{\"a\":1,\"a", "b\":2", true),
            ("{\"a\":{\"a\":1", "},\"a\"", false),
            ("{\"a\":{\"a\":1", "},\"b\"", true),
            ("{\"a\":[{\"a\":1", "},{\"a\"", true),
            ("{\"a\":\"", "x\",\"a\":", false),
            ("{\"a\":\"x\\", "\",\"a\":", true),
            ("{\"\\n\":1,\"", "\\u000a\"", false),
            ("", "{\"a\":1,\"a\":", false),
            ("[{\"a\":1}", ",{\"a\":1}", true),
            ("{\"a\":{}", ",\"a\":", false),
        ] {
            let mut keys = Keys::default();
            keys.advance(before.as_bytes());
            assert_eq!(keys.allow(bytes.as_bytes()), want, "{before} then {bytes}");
        }
    }
}
