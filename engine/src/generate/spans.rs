//! Where the scalars of a finished value stand in its text.

use crate::constrain::CallSpan;

/// What a reply says beside its calls.
pub(super) const SAID: &str = "/text";
const NAME: &str = "/name";

/// A scalar in the text of a value.
pub(super) struct Span {
    pub path: String,
    pub start: usize,
    pub end: usize,
}

/// The scalars of a whole, compact JSON text.
pub(super) fn of_json(text: &str) -> Vec<Span> {
    let mut found = Vec::new();
    scan(text, 0, text.len(), "", &mut found);
    found
}

/// The scalars of a reply: what is said, and of each call its name and the scalars of its arguments.
pub(super) fn of_reply(text: &str, calls: &[CallSpan]) -> Vec<Span> {
    let mut found = Vec::new();
    let said = calls.first().map_or(text.len(), |c| c.said);
    if said > 0 || calls.is_empty() {
        found.push(Span { path: SAID.into(), start: 0, end: said });
    }
    for (i, call) in calls.iter().enumerate() {
        let (start, end) = call.name;
        found.push(Span { path: format!("/calls/{i}{NAME}"), start, end });
        let (start, end) = call.arguments;
        scan(text, start, end, &format!("/calls/{i}/arguments"), &mut found);
    }
    found
}

/// Whether a leaf of a reply is the name of a called tool.
pub(super) fn is_name(path: &str) -> bool {
    let index = path.strip_prefix("/calls/").and_then(|p| p.strip_suffix(NAME));
    index.is_some_and(|i| i.bytes().all(|b| b.is_ascii_digit()))
}

/// The scalars between two places of a text, which hold a whole value or the arguments of a call in Python's notation.
fn scan(text: &str, start: usize, stop: usize, root: &str, found: &mut Vec<Span>) {
    let bytes = &text.as_bytes()[..stop];
    // Of each open array the index, of each open object the key.
    let mut open: Vec<(Option<usize>, String)> = Vec::new();
    let (mut at, mut key_next) = (start, false);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'(' => {
                open.push((None, String::new()));
                key_next = true;
                at += 1;
            }
            b'[' => {
                open.push((Some(0), String::new()));
                key_next = false;
                at += 1;
            }
            b'}' | b']' | b')' => {
                open.pop();
                key_next = false;
                at += 1;
            }
            b',' => {
                match open.last_mut() {
                    Some((Some(index), _)) => *index += 1,
                    _ => key_next = true,
                }
                at += 1;
            }
            b':' => {
                key_next = false;
                at += 1;
            }
            b'"' if key_next => {
                let end = string_end(bytes, at);
                if let Some((None, key)) = open.last_mut() {
                    *key = serde_json::from_str(&text[at..end]).unwrap_or_default();
                }
                at = end;
            }
            _ if key_next => {
                let end = at + bytes[at..].iter().take_while(|b| **b != b'=').count();
                if let Some((None, key)) = open.last_mut() {
                    *key = text[at..end].to_string();
                }
                key_next = false;
                at = end + 1;
            }
            first => {
                let end = match first {
                    b'"' => string_end(bytes, at),
                    _ => {
                        at + bytes[at..]
                            .iter()
                            .take_while(|b| !matches!(b, b',' | b']' | b'}' | b')'))
                            .count()
                    }
                };
                let path = open.iter().map(|(index, key)| match index {
                    Some(index) => format!("/{index}"),
                    None => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
                });
                let path = format!("{root}{}", path.collect::<String>());
                found.push(Span { path, start: at, end });
                at = end;
            }
        }
    }
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(b) = bytes.get(at) {
        match b {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
