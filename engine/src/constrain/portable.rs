//! Patterns as the independent validator takes them: it knows ECMA-262 with the `u` flag only, and not all of that.
//! What the other notation allows beyond is written in another way that means the same, and OpenAPI's `nullable` as a type.

use super::dialect::{self, MAPS};
use serde_json::Value;

/// Keywords whose values are no schemas.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "example"];

/// Rewrites the patterns of a schema. Schemas are nested 100 deep at most.
pub(super) fn rewrite(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(map) => {
            if dialect::is_nullable(map) {
                let kinds = match map.get("type") {
                    Some(Value::Array(kinds)) => kinds.clone(),
                    one => one.cloned().into_iter().collect(),
                };
                let null = Value::String("null".into());
                let kinds = kinds.into_iter().filter(|k| *k != null).chain([null.clone()]);
                map.insert("type".into(), Value::Array(kinds.collect()));
            }
            for (keyword, value) in map.iter_mut() {
                match (keyword.as_str(), value) {
                    ("pattern", Value::String(source)) => *source = pattern(source),
                    (k, Value::Object(inner)) if MAPS.contains(&k) => {
                        if k == "patternProperties" {
                            *inner =
                                std::mem::take(inner).into_iter().map(|(k, v)| (pattern(&k), v)).collect();
                        }
                        inner.values_mut().for_each(rewrite);
                    }
                    (k, value) if !DATA.contains(&k) => rewrite(value),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// One pattern.
fn pattern(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let rest = &chars[at..];
        match c {
            '\\' => at += escape(rest, &mut out),
            '[' => at += class(rest, &mut out),
            '{' if counts(rest) => {
                out.push(c);
                at += 1;
                while let Some(&c) = chars.get(at) {
                    out.push(c);
                    at += 1;
                    if c == '}' {
                        break;
                    }
                }
            }
            '{' | '}' | ']' => {
                out.push('\\');
                out.push(c);
                at += 1;
            }
            c => {
                out.push(c);
                at += 1;
            }
        }
    }
    out
}

/// Whether a brace opens the counts of a repetition.
fn counts(chars: &[char]) -> bool {
    let body: String = chars[1..].iter().take_while(|c| **c != '}').collect();
    let (min, max) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    body.len() + 1 < chars.len() && !min.is_empty() && digits(min) && digits(max)
}

/// A backslash and what belongs to it; returns how many characters that are.
fn escape(chars: &[char], out: &mut String) -> usize {
    if let Some((c, n)) = surrogates(chars) {
        out.push(c);
        return n;
    }
    let braced = matches!(chars, ['\\', 'p' | 'P' | 'u', '{', ..]);
    if let Some(n) = chars.iter().position(|c| *c == '}').filter(|_| braced) {
        out.extend(&chars[..=n]);
        return n + 1;
    }
    match chars.get(1) {
        Some('0') if !chars.get(2).is_some_and(char::is_ascii_digit) => out.push_str("\\x00"),
        Some(c) => out.extend(['\\', *c]),
        None => out.push('\\'),
    }
    2
}

/// `\ud83d\ude42`: one character in two halves.
fn surrogates(chars: &[char]) -> Option<(char, usize)> {
    let half = |at: usize| {
        let text: String = chars.get(at..at + 6)?.iter().collect();
        u32::from_str_radix(text.strip_prefix("\\u")?, 16).ok()
    };
    let (high, low) = (half(0)?, half(6)?);
    if !(0xD800..0xDC00).contains(&high) || !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).map(|c| (c, 12))
}

/// A class in brackets; returns how many characters it has.
fn class(chars: &[char], out: &mut String) -> usize {
    for (special, instead) in [("[^]", "[\\s\\S]"), ("[]", "[^\\s\\S]")] {
        if chars.iter().copied().take(special.len()).eq(special.chars()) {
            out.push_str(instead);
            return special.len();
        }
    }
    let is_set = |at: usize| {
        chars.get(at) == Some(&'\\') && chars.get(at + 1).is_some_and(|c| "dDwWsSpP".contains(*c))
    };
    out.push('[');
    let mut at = 1;
    let mut after_set = false;
    while let Some(&c) = chars.get(at) {
        let set = is_set(at);
        match c {
            '\\' => at += escape(&chars[at..], out),
            // Beside a set a hyphen is itself.
            '-' if after_set || is_set(at + 1) => {
                out.push_str("\\-");
                at += 1;
            }
            c => {
                out.push(c);
                at += 1;
                if c == ']' {
                    break;
                }
            }
        }
        after_set = set;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_validator_does_not_know_is_written_otherwise() {
        for (source, want) in [
            ("^[^]$", r"^[\s\S]$"),
            ("^[]$", r"^[^\s\S]$"),
            (r"^\0$", r"^\x00$"),
            (r"^[\0a]$", r"^[\x00a]$"),
            (r"^\ud83d\ude42$", "^\u{1F642}$"),
            (r"[\ud83d\ude42]", "[\u{1F642}]"),
            ("a{,3}", r"a\{,3\}"),
            ("a{", r"a\{"),
            ("a]}", r"a\]\}"),
            (r"[\w-a]", r"[\w\-a]"),
            (r"[a-\d]", r"[a\-\d]"),
        ] {
            assert_eq!(pattern(source), want, "{source}");
        }
        for same in [
            "",
            "^a{2}b{2,}c{2,3}$",
            r"^\p{Lu}\u{1F600}\u00e9$",
            "[a-z-]",
            r"[\p{L}x]",
            r"\{\}\]\[",
            "(?<n>a|b)(?!c)",
            r"[\-\]]",
            r"\d+",
        ] {
            assert_eq!(pattern(same), same);
        }
    }

    #[test]
    fn only_patterns_are_rewritten() {
        let mut schema = json!({
            "pattern": "a{", "const": {"pattern": "a{"},
            "properties": {"pattern": {"items": {"pattern": "]"}}, "const": {"pattern": "}"}},
            "patternProperties": {"a]": {"pattern": "^"}},
            "anyOf": [{"pattern": "[]"}],
        });
        rewrite(&mut schema);
        let want = json!({
            "pattern": "a\\{", "const": {"pattern": "a{"},
            "properties": {"pattern": {"items": {"pattern": "\\]"}}, "const": {"pattern": "\\}"}},
            "patternProperties": {"a\\]": {"pattern": "^"}},
            "anyOf": [{"pattern": "[^\\s\\S]"}],
        });
        assert_eq!(schema, want);
    }
}
