//! Distinct keys. A context-free grammar cannot say that the keys of an object differ where the type leaves
//! them open, so this follows the text beside it and takes away the tokens that would repeat one.

use std::collections::HashSet;

/// Where a text of compact, valid JSON stands.
#[derive(Clone, Default)]
pub(super) struct Keys {
    /// Open objects (their keys so far) and arrays (none).
    stack: Vec<Option<HashSet<Vec<u8>>>>,
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

impl Keys {
    /// Whether a token could repeat a key here at all.
    pub fn matter(&self) -> bool {
        self.stack.iter().flatten().any(|keys| !keys.is_empty())
    }

    /// Whether no key is repeated within the bytes, from here on.
    pub fn allow(&self, bytes: &[u8]) -> bool {
        let mut copy = Keys { stack: Vec::new(), state: self.state, key: Vec::new() };
        // Most tokens never leave the place they start in: copy what the bytes touch, and no more.
        let closes = bytes.iter().filter(|b| matches!(b, b'}' | b']')).count() + 1;
        copy.stack.extend_from_slice(&self.stack[self.stack.len().saturating_sub(closes)..]);
        copy.key.clone_from(&self.key);
        bytes.iter().all(|&b| copy.step(b))
    }

    /// Moves on over bytes of the value.
    pub fn advance(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.step(b);
        }
    }

    /// `false` if the byte ends a key that was there before.
    fn step(&mut self, b: u8) -> bool {
        match self.state {
            State::Between => match b {
                b'"' => self.state = State::Text,
                b'{' => {
                    self.stack.push(Some(HashSet::new()));
                    self.state = State::BeforeKey;
                }
                b'[' => self.stack.push(None),
                b'}' | b']' => {
                    self.stack.pop();
                }
                b',' if matches!(self.stack.last(), Some(Some(_))) => self.state = State::BeforeKey,
                _ => {}
            },
            State::BeforeKey => match b {
                b'"' => {
                    self.key.clear();
                    self.state = State::Key;
                }
                _ => {
                    self.stack.pop();
                    self.state = State::Between;
                }
            },
            State::Key => match b {
                b'"' => {
                    self.state = State::Between;
                    let key = canonical(std::mem::take(&mut self.key));
                    return match self.stack.last_mut() {
                        Some(Some(keys)) => keys.insert(key),
                        _ => true,
                    };
                }
                b'\\' => {
                    self.key.push(b);
                    self.state = State::KeyEscape;
                }
                b => self.key.push(b),
            },
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
            ("{\"a\":1", ",\"a\":", false), ("{\"a\":1", ",\"b\":", true), ("{\"a\":1,\"", "a\"", false),
            ("{\"a\":1,\"", "a", true), ("{\"a\":1,\"a", "\":2", false), ("{\"a\":1,\"a", "b\":2", true),
            ("{\"a\":{\"a\":1", "},\"a\"", false), ("{\"a\":{\"a\":1", "},\"b\"", true), ("{\"a\":[{\"a\":1", "},{\"a\"", true),
            ("{\"a\":\"", "x\",\"a\":", false), ("{\"a\":\"x\\", "\",\"a\":", true), ("{\"\\n\":1,\"", "\\u000a\"", false),
            ("", "{\"a\":1,\"a\":", false), ("[{\"a\":1}", ",{\"a\":1}", true), ("{\"a\":{}", ",\"a\":", false),
        ] {
            let mut keys = Keys::default();
            keys.advance(before.as_bytes());
            assert_eq!(keys.allow(bytes.as_bytes()), want, "{before} then {bytes}");
        }
    }
}
