//! Text as it becomes final: whole characters, and nothing that may still become a stop string.

use crate::tokenizer::Utf8Stream;

/// Joins token bytes into text and looks for stop strings.
#[derive(Debug, Default)]
pub(super) struct TextStream {
    utf8: Utf8Stream,
    /// All text so far, whole characters.
    pub text: String,
    /// Bytes of `text` that events have carried.
    emitted: usize,
    stop: Vec<String>,
}

impl TextStream {
    pub fn new(stop: Vec<String>) -> Self {
        TextStream { stop, ..Default::default() }
    }

    /// Adds a token's bytes. `Some(at)` is the byte offset of the first stop string met.
    pub fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let added = self.utf8.push(bytes);
        let longest = self.stop.iter().map(String::len).max().unwrap_or(0);
        let mut from = self.text.len().saturating_sub(longest);
        while !self.text.is_char_boundary(from) {
            from -= 1;
        }
        self.text.push_str(&added);
        let found = self.stop.iter().filter_map(|s| self.text[from..].find(s.as_str())).min()?;
        Some(from + found)
    }

    /// Text that became final since the last call.
    pub fn take_final(&mut self) -> String {
        let end = self.text.len() - self.held_back();
        let text = self.text.get(self.emitted..end).unwrap_or_default().to_string();
        self.emitted = self.emitted.max(end);
        text
    }

    /// Everything that is left, at the end of the generation.
    pub fn take_rest(&mut self) -> String {
        let text = self.text.get(self.emitted..).unwrap_or_default().to_string();
        self.emitted = self.text.len();
        text
    }

    /// Cuts the text at a stop string.
    pub fn cut(&mut self, at: usize) {
        self.text.truncate(at);
        self.utf8 = Utf8Stream::default();
    }

    /// Bytes at the end that are a proper prefix of a stop string.
    fn held_back(&self) -> usize {
        let mut held = 0;
        for stop in &self.stop {
            for n in (held + 1..stop.len()).rev() {
                if stop.is_char_boundary(n) && self.text.ends_with(&stop[..n]) {
                    held = n;
                    break;
                }
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_possible_stop_string_is_held_back_until_it_is_decided() {
        let mut stream = TextStream::new(vec!["END".into(), "ENOUGH".into()]);
        let steps = [
            ("a", "a", None),
            ("E", "", None),
            ("N", "", None),
            ("x", "ENx", None),
            ("EN", "", None),
            ("Dz", "", Some(4)),
        ];
        for (bytes, text, stop) in steps {
            let found = stream.push(bytes.as_bytes());
            assert_eq!(found, stop, "after {bytes}");
            match found {
                Some(at) => {
                    stream.cut(at);
                    assert_eq!(stream.text, "aENx");
                    assert_eq!(stream.take_rest(), "");
                }
                None => assert_eq!(stream.take_final(), text, "after {bytes}"),
            }
        }
    }

    #[test]
    fn characters_are_never_split() {
        let mut stream = TextStream::new(vec![]);
        let texts: Vec<String> = "é🙂"
            .bytes()
            .map(|b| {
                stream.push(&[b]);
                stream.take_final()
            })
            .collect();
        assert_eq!(texts, ["", "é", "", "", "", "🙂"]);
    }
}
