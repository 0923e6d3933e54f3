//! The value so far, as JSON that parses at every moment.

use super::run::Run;
use super::Event;

/// What can be said of an unfinished JSON text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Partial {
    /// JSON pointer of the innermost value that is being written.
    pub path: String,
    /// The text up to where it makes sense, and what closes it.
    pub json: String,
    /// Bytes of `json` that are the text's own and stay as they are.
    pub final_bytes: usize,
}

impl Run {
    /// The next [`Event::Partial`], if the request asked for them and the value has grown.
    pub(super) fn partial_event(&mut self) -> Option<Event> {
        let text = self.partial();
        if !self.request.options.partials || self.request.ty.is_text() || text.len() == self.shown.0 {
            return None;
        }
        let grown = text.len();
        let partial = match self.is_finished() {
            true => Some(Partial { path: String::new(), json: text.to_string(), final_bytes: grown }),
            false => partial(text),
        };
        let before = std::mem::replace(&mut self.shown, (grown, partial.clone()));
        let Partial { path, json, final_bytes } = partial.filter(|p| before.1.as_ref() != Some(p))?;
        Some(Event::Partial { path, json, final_bytes })
    }
}

enum Open {
    Object { key: String },
    Array { index: usize },
}

/// A prefix of compact JSON, closed. `None` while there is nothing to show: numbers and words are shown once
/// they are whole, strings as they grow.
pub(super) fn partial(text: &str) -> Option<Partial> {
    let bytes = text.as_bytes();
    let mut open: Vec<Open> = Vec::new();
    // The end of what makes sense so far, and how many of `open` were open there.
    let mut sound: Option<(usize, usize)> = None;
    let (mut at, mut key_next) = (0, false);
    let mut inside = false;
    let mut string_open = false;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => {
                let object = bytes[at] == b'{';
                open.push(match object {
                    true => Open::Object { key: String::new() },
                    false => Open::Array { index: 0 },
                });
                (at, key_next, inside) = (at + 1, object, false);
                sound = Some((at, open.len()));
            }
            b'}' | b']' => {
                open.pop();
                (at, key_next, inside) = (at + 1, false, false);
                sound = Some((at, open.len()));
            }
            b',' => {
                at += 1;
                inside = false;
                match open.last_mut() {
                    Some(Open::Array { index }) => *index += 1,
                    Some(Open::Object { .. }) => key_next = true,
                    None => return None,
                }
            }
            b':' => (at, inside) = (at + 1, true),
            b'"' => {
                let (end, whole) = string_end(bytes, at);
                if key_next {
                    if !whole {
                        break;
                    }
                    let name = serde_json::from_str(&text[at..end]).ok()?;
                    match open.last_mut() {
                        Some(Open::Object { key }) => *key = name,
                        _ => return None,
                    }
                    (at, key_next) = (end, false);
                    continue;
                }
                sound = Some((end, open.len()));
                if !whole {
                    (inside, string_open) = (true, true);
                    break;
                }
                (at, inside) = (end, false);
            }
            _ => {
                inside = true;
                let word = bytes[at..].iter().take_while(|b| !matches!(b, b',' | b']' | b'}')).count();
                at += word;
                if at < bytes.len() {
                    inside = false;
                    sound = Some((at, open.len()));
                }
            }
        }
    }
    // A value in an array has begun with its first byte, in an object with the colon.
    let depth = if inside { open.len() } else { open.len().saturating_sub(1) };
    let path = open[..depth].iter().map(segment).collect();
    let (end, closing) = sound?;
    let mut json = text[..end].to_string();
    if string_open {
        json.push('"');
    }
    json.extend(open[..closing].iter().rev().map(|o| match o {
        Open::Object { .. } => '}',
        Open::Array { .. } => ']',
    }));
    Some(Partial { path, json, final_bytes: end })
}

fn segment(open: &Open) -> String {
    match open {
        Open::Object { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Open::Array { index } => format!("/{index}"),
    }
}

/// The end of a string that begins at a quote, and whether it is whole; otherwise the end of its last whole
/// character.
fn string_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        let len = match byte {
            b'"' => return (at + 1, true),
            b'\\' => match escape_len(&bytes[at..]) {
                Some(len) => len,
                None => return (at, false),
            },
            _ => 1,
        };
        at += len;
    }
    (at, false)
}

/// Bytes of an escape, both halves of a surrogate pair together; `None` if it is not whole.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'u' => {
            let high = bytes.get(2..6)?;
            let pair = matches!(high, [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
            let len = if pair { 12 } else { 6 };
            (bytes.len() >= len).then_some(len)
        }
        _ => Some(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_parses_and_says_where_it_is() {
        for (text, want) in [
            ("", None),
            ("1", None),
            ("\"", Some(("", "\"\"", 1))),
            ("\"a\\", Some(("", "\"a\"", 2))),
            ("\"a\\u00", Some(("", "\"a\"", 2))),
            ("\"\\ud83d\\ude0", Some(("", "\"\"", 1))),
            ("{", Some(("", "{}", 1))),
            ("{\"na", Some(("", "{}", 1))),
            ("{\"name\"", Some(("", "{}", 1))),
            ("{\"name\":", Some(("/name", "{}", 1))),
            ("{\"name\":\"A", Some(("/name", "{\"name\":\"A\"}", 10))),
            ("{\"name\":\"A\"", Some(("", "{\"name\":\"A\"}", 11))),
            ("{\"n\":12", Some(("/n", "{}", 1))),
            ("{\"n\":12,", Some(("", "{\"n\":12}", 7))),
            ("{\"n\":12,\"t\":[", Some(("/t", "{\"n\":12,\"t\":[]}", 13))),
            ("{\"t\":[tr", Some(("/t/0", "{\"t\":[]}", 6))),
            ("{\"t\":[true,\"x", Some(("/t/1", "{\"t\":[true,\"x\"]}", 13))),
            ("{\"t\":[true,{\"a/b\":nul", Some(("/t/1/a~1b", "{\"t\":[true,{}]}", 12))),
            ("{\"t\":[]}", Some(("", "{\"t\":[]}", 8))),
        ] {
            let got = partial(text);
            let got = got.as_ref().map(|p| (p.path.as_str(), p.json.as_str(), p.final_bytes));
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn prefixes_of_a_value_grow_into_it() {
        let whole = r#"{"a":[1,-2.5e3,"x\"y\u000a",null],"é":{"":[],"b":{}},"c":"日本🙂"}"#;
        let mut seen = 0;
        for end in (0..=whole.len()).filter(|&i| whole.is_char_boundary(i)) {
            let Some(p) = partial(&whole[..end]) else { continue };
            serde_json::from_str::<serde_json::Value>(&p.json).unwrap_or_else(|e| panic!("{}: {e}", p.json));
            assert!(whole.starts_with(&p.json[..p.final_bytes]) && p.final_bytes >= seen, "{}", p.json);
            seen = p.final_bytes;
        }
        assert_eq!(seen, whole.len());
    }
}
