//! Numbers that a parser rounded: JSON's numbers are decimal, those of a parsed value are u64, i64 or f64. A number
//! that a type would not hold exactly is refused rather than replaced by its neighbour.

use super::decimal::Decimal;
use super::pointer;
use crate::error::{Error, Result};
use serde_json::Number;

/// Characters of a number that a message shows.
const MAX_SHOWN: usize = 40;

/// Whether a parsed number is what its text said, for sure: integers beyond 64 bits are doubles, and a double of
/// that size may have been any integer around it.
pub(super) fn constant_is_certain(n: &Number) -> bool {
    let within = |f: f64| {
        f.fract() != 0.0 || (-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&f)
    };
    n.is_u64() || n.is_i64() || n.as_f64().is_some_and(within)
}

/// The same for bounds, of which those beyond every number that is written need not be exact.
pub(super) fn bound_is_certain(n: &Number) -> bool {
    constant_is_certain(n) || n.as_f64().is_some_and(|f| f.abs() >= 1e20)
}

/// Why such a number is refused.
pub(super) fn uncertain(n: &Number) -> String {
    format!("{n} is beyond the integers of 64 bits, and may have been rounded when it was parsed")
}

/// Whether a number is the one that its text says.
pub(super) fn same(text: &str, n: &Number) -> bool {
    Decimal::parse(text).is_some_and(|d| Decimal::of(n) == Some(d))
}

/// Why a number that is not the [`same`] is refused.
pub(super) fn rounded(text: &str, n: &Number) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("{shown} would be rounded to {n}: numbers are taken as integers of 64 bits or as doubles")
}

/// Refuses a JSON text, already known to be valid, that has a number which does not survive parsing.
pub(super) fn check(text: &str) -> Result<()> {
    let mut scan = Scan { path: Vec::new(), key_next: false };
    let mut at = 0;
    while let Some(&b) = text.as_bytes().get(at) {
        let end = match b {
            b'"' => string_end(text, at),
            b'-' | b'0'..=b'9' => {
                at + text[at..]
                    .find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'))
                    .unwrap_or(text.len() - at)
            }
            _ => at + 1,
        };
        scan.token(b, text.get(at..end).unwrap_or_default())?;
        at = end;
    }
    Ok(())
}

/// The end of the string that begins at a quote.
fn string_end(text: &str, start: usize) -> usize {
    let mut escaped = false;
    for (i, b) in text.as_bytes()[start + 1..].iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return start + i + 2,
            _ => {}
        }
    }
    text.len()
}

enum Step {
    Key(String),
    Index(usize),
}

struct Scan {
    path: Vec<Step>,
    /// Whether a string here is a key.
    key_next: bool,
}

impl Scan {
    fn token(&mut self, first: u8, token: &str) -> Result<()> {
        match first {
            b'{' | b'[' => {
                self.path.push(if first == b'{' { Step::Key(String::new()) } else { Step::Index(0) });
                self.key_next = first == b'{';
            }
            b'}' | b']' => {
                self.path.pop();
                self.key_next = false;
            }
            b',' => match self.path.last_mut() {
                Some(Step::Index(i)) => *i += 1,
                _ => self.key_next = true,
            },
            b'"' if self.key_next => {
                self.key_next = false;
                if let Some(key) = self.path.last_mut() {
                    *key = Step::Key(serde_json::from_str(token).unwrap_or_default());
                }
            }
            b'-' | b'0'..=b'9' => {
                if let Some(n) = serde_json::from_str::<Number>(token).ok().filter(|n| !same(token, n)) {
                    return Err(self.refuse(rounded(token, &n)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// At the innermost key; the items of an array are their key's.
    fn refuse(&self, reason: String) -> Error {
        let last = self.path.iter().rposition(|s| matches!(s, Step::Key(_)));
        let keyword = match last.map(|i| &self.path[i]) {
            Some(Step::Key(key)) => key.as_str(),
            _ => "number",
        };
        let mut at = String::new();
        for step in &self.path[..last.unwrap_or(0)] {
            at.push('/');
            match step {
                Step::Key(key) => at.push_str(&pointer::escape(key)),
                Step::Index(i) => at.push_str(&i.to_string()),
            }
        }
        Error::ty(at, keyword, reason)
    }
}
