//! Arguments in Python's notation: `f(a=1, b=["x", None])`.

use super::super::lower::Low;
use super::grammar::each_part;
use crate::error::{Error, Result};
use serde_json::{Map, Number, Value};

/// Nesting of a value.
const MAX_DEPTH: usize = 128;

/// Words that are no names in Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

fn is_name(text: &str) -> bool {
    let start = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(start)
        && text.chars().all(|c| start(c) || c.is_ascii_digit())
        && !KEYWORDS.contains(&text)
}

/// Makes a tool's arguments keyword arguments, where that is possible.
pub(super) fn keyword_arguments(name: &str, lows: &mut Vec<Low>) -> Result<()> {
    let refuse = |reason: String| Err(Error::ty("", "parameters", reason));
    if !name.split('.').all(is_name) {
        return refuse(format!("{name:?} is no name that this model's call syntax can write"));
    }
    resolve_root(lows);
    let Some(root) = lows.first_mut() else { return refuse("there are no arguments".into()) };
    if root.any
        || root.scalar.is_some()
        || !root.arrays.is_empty()
        || !root.refs.is_empty()
        || !root.seqs.is_empty()
    {
        return refuse("this model's call syntax takes plain objects as arguments".into());
    }
    for object in &mut root.objects {
        if !object.rest.is_empty() {
            return refuse("this model's call syntax has no arguments without a name".into());
        }
        if let Some(field) = object.fields.iter().find(|f| !is_name(&f.key)) {
            return refuse(format!(
                "{:?} is no argument name that this model's call syntax can write",
                field.key
            ));
        }
        object.arguments = true;
    }
    Ok(())
}

/// Copies what the root refers to into the root, and the root to where values refer to it: as arguments an object is
/// written otherwise than as a value.
fn resolve_root(lows: &mut Vec<Low>) {
    let Some(mut root) = lows.first().cloned() else { return };
    let (copy, mut referred) = (lows.len(), false);
    for low in lows.iter_mut().chain([&mut root]) {
        each_part(low, &mut |part| {
            for def in part.refs.iter_mut().filter(|def| **def == 0) {
                (*def, referred) = (copy, true);
            }
        });
    }
    if referred {
        lows.push(root.clone());
    }
    let mut todo = std::mem::take(&mut root.refs);
    let mut seen = Vec::new();
    while let Some(def) = todo.pop() {
        let Some(low) = lows.get(def).filter(|_| !seen.contains(&def)) else { continue };
        seen.push(def);
        root.any |= low.any;
        root.scalar = root.scalar.or_else(|| low.scalar.clone());
        root.arrays.extend(low.arrays.iter().cloned());
        root.objects.extend(low.objects.iter().cloned());
        root.seqs.extend(low.seqs.iter().cloned());
        todo.extend(&low.refs);
    }
    lows[0] = root;
}

/// Reads calls as they are generated: `f(a=1), g()`.
pub(super) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Reader { rest: text }
    }

    /// The calls, up to the end of the text.
    pub fn calls(mut self) -> Option<Vec<(String, Value)>> {
        let mut calls = Vec::new();
        loop {
            let end = self.rest.find('(')?;
            let name = self.rest[..end].trim().to_string();
            self.rest = &self.rest[end + 1..];
            calls.push((name, Value::Object(self.arguments()?)));
            if self.rest.trim().is_empty() {
                return Some(calls);
            }
            self.take(",")?;
        }
    }

    /// Bytes of the arguments that the text begins with, their closing bracket included.
    pub fn arguments_len(mut self) -> Option<usize> {
        let before = self.rest.len();
        self.arguments()?;
        Some(before - self.rest.len())
    }

    fn arguments(&mut self) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        while self.take(")").is_none() {
            if !map.is_empty() {
                self.take(",")?;
            }
            let end = self.rest.find('=')?;
            let key = self.rest[..end].trim().to_string();
            self.rest = &self.rest[end + 1..];
            if map.insert(key, self.value(0)?).is_some() {
                return None;
            }
        }
        Some(map)
    }

    fn take(&mut self, mark: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(mark)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.rest = self.rest.trim_start();
        for (word, value) in [("None", Value::Null), ("True", true.into()), ("False", false.into())] {
            if self.take(word).is_some() {
                return Some(value);
            }
        }
        match self.rest.as_bytes().first()? {
            b'[' => {
                self.take("[")?;
                let mut items = Vec::new();
                while self.take("]").is_none() {
                    if !items.is_empty() {
                        self.take(",")?;
                    }
                    items.push(self.value(depth + 1)?);
                }
                Some(Value::Array(items))
            }
            b'{' => {
                self.take("{")?;
                let mut map = Map::new();
                while self.take("}").is_none() {
                    if !map.is_empty() {
                        self.take(",")?;
                    }
                    self.rest = self.rest.trim_start();
                    let key = self.string()?;
                    self.take(":")?;
                    if map.insert(key, self.value(depth + 1)?).is_some() {
                        return None;
                    }
                }
                Some(Value::Object(map))
            }
            b'"' => self.string().map(Value::String),
            _ => {
                let number = |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9');
                let end = self.rest.find(|c| !number(c)).unwrap_or(self.rest.len());
                let value: Number = serde_json::from_str(&self.rest[..end]).ok()?;
                self.rest = &self.rest[end..];
                Some(Value::Number(value))
            }
        }
    }

    /// Strings are written as JSON writes them, which Python reads as well.
    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.bytes().enumerate().skip(1).find_map(|(i, b)| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends.then_some(i + 1)
        })?;
        let text = serde_json::from_str(&self.rest[..end]).ok()?;
        self.rest = &self.rest[end..];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_read_as_python_would() {
        for (text, want) in [
            ("f()", Some(json!([["f", {}]]))),
            (
                r#"f(a=1,b="x\"),(",c=[True,None],d={"k":-2.5e3})"#,
                Some(json!([["f", {"a": 1, "b": "x\"),(", "c": [true, null], "d": {"k": -2500.0}}]])),
            ),
            ("f(a=1), g(b=False)", Some(json!([["f", {"a": 1}], ["g", {"b": false}]]))),
            ("f(a=1", None),
            ("f(a=1,a=2)", None),
            ("f(1)", None),
            ("f(a=tru)", None),
            ("", None),
        ] {
            let calls = Reader::new(text).calls();
            assert_eq!(calls.map(|c| json!(c)), want, "{text}");
        }
    }
}
