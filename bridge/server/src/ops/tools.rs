//! Requests with a tool that nests too deep: that tool is named and left out, and the others stay.

use crate::failure::Outcome;
use lean_engine::Error;
use lean_protocol::{WireError, JSON_DEPTH_MAX};
use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;
use std::ops::Range;

/// A request's JSON object without such tools, and a warning for each. An empty tail is an empty object.
pub(super) fn document(tail: &[u8]) -> Outcome<(Value, Vec<String>)> {
    let tail = if tail.is_empty() { b"{}".as_slice() } else { tail };
    let too_deep = match lean_protocol::json::parse(tail) {
        Ok(v) if v.is_object() => return Ok((v, Vec::new())),
        Ok(_) => return Err(Error::invalid("tail", "it must be a JSON object").into()),
        Err(e) => e,
    };
    let (rest, names) = without_deep_tools(tail);
    match lean_protocol::json::parse(&rest) {
        Ok(v) if v.is_object() && !names.is_empty() => {
            well_formed(tail)?;
            let deep = format!("nested more than {JSON_DEPTH_MAX} levels deep");
            if v.pointer("/type/tools/tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                return Err(Error::invalid("type", format!("tool {:?}: {deep}", names[0])).into());
            }
            Ok((v, names.iter().map(|name| format!("tool {name:?} is left out: {deep}")).collect()))
        }
        _ => {
            // What is no JSON is not called too deep: the brackets of such a document do not say where a tool ends.
            if matches!(&too_deep, WireError::Json { reason } if reason.starts_with("nested")) {
                well_formed(tail)?;
            }
            Err(too_deep.into())
        }
    }
}

/// Refuses what is no JSON within what was cut out too.
fn well_formed(tail: &[u8]) -> Outcome<()> {
    let wrong = |reason: String| Err(WireError::Json { reason }.into());
    if let Err(e) = std::str::from_utf8(tail) {
        return wrong(format!("no UTF-8 at byte {}", e.valid_up_to() + 1));
    }
    // Reads over values with a stack of its own, however deep they are.
    match serde_json::from_slice::<IgnoredAny>(tail) {
        Ok(_) => Ok(()),
        Err(e) => wrong(e.to_string()),
    }
}

/// An open bracket.
struct Open<'a> {
    /// Its key, quoted; empty in an array.
    key: &'a [u8],
    /// Whether it is an array of tools, and where its current element begins.
    tools: bool,
    element: usize,
}

/// Whether an array with this key, inside of these brackets, holds tools: those of a type, or of a block's chat. What else
/// is called so, such as a member of a constant, is data.
fn holds_tools(open: &[Open<'_>], key: &[u8]) -> bool {
    let mut path: Vec<&[u8]> = open.iter().map(|o| o.key).collect();
    path.push(key);
    let of_a_type: [&[u8]; 4] = [b"", b"\"type\"", b"\"tools\"", b"\"tools\""];
    let of_a_chat: [&[u8]; 5] = [b"", b"\"blocks\"", b"", b"\"chat\"", b"\"tools\""];
    path == of_a_type || path == of_a_chat
}

/// The document without tools that reach too deep, and their names.
fn without_deep_tools(tail: &[u8]) -> (Vec<u8>, Vec<String>) {
    let (mut open, mut deep): (Vec<Open>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    // The last string, if only a colon has followed it.
    let (mut at, mut named) = (0, b"".as_slice());
    // The depth of the array whose current element reaches too deep.
    let mut reached: Option<usize> = None;
    while let Some(&byte) = tail.get(at) {
        match byte {
            b'"' => {
                let end = string_end(tail, at);
                named = tail.get(at..end).unwrap_or_default();
                at = end;
                continue;
            }
            b'[' | b'{' => {
                let tools = byte == b'[' && holds_tools(&open, named);
                open.push(Open { key: named, tools, element: at + 1 });
                if open.len() > JSON_DEPTH_MAX && reached.is_none() {
                    reached = open.iter().position(|o| o.tools);
                }
            }
            b']' | b'}' | b',' => {
                let depth = open.len().wrapping_sub(1);
                if let Some(array) = open.last_mut().filter(|o| o.tools) {
                    if reached == Some(depth) {
                        deep.push(array.element..at);
                        reached = None;
                    }
                    array.element = at + 1;
                }
                if byte != b',' {
                    open.pop();
                }
            }
            _ => {}
        }
        if !matches!(byte, b':' | b' ' | b'\n' | b'\r' | b'\t') {
            named = b"";
        }
        at += 1;
    }
    let names = deep.iter().map(|range| name(&tail[range.clone()])).collect::<Vec<String>>();
    (without(tail, &deep), distinct(names))
}

/// Behind a string that begins at a quote.
fn string_end(tail: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = tail.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    tail.len()
}

/// The text without some elements of arrays, each with a comma beside it.
fn without(tail: &[u8], elements: &[Range<usize>]) -> Vec<u8> {
    let (mut out, mut from) = (Vec::with_capacity(tail.len()), 0);
    for element in elements {
        out.extend_from_slice(&tail[from..element.start]);
        from = element.end;
        if tail.get(from) == Some(&b',') {
            from += 1;
        } else {
            let kept = out.trim_ascii_end().len();
            out.truncate(kept);
            if out.last() == Some(&b',') {
                out.pop();
            }
        }
    }
    out.extend_from_slice(&tail[from..]);
    out
}

/// The name of a tool, whatever else it has: what is skipped may nest as it likes.
fn name(tool: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Tool {
        name: Option<String>,
        function: Option<Function>,
    }
    #[derive(Deserialize)]
    struct Function {
        name: Option<String>,
    }
    let tool = serde_json::from_slice::<Tool>(tool).ok();
    tool.and_then(|t| t.function.and_then(|f| f.name).or(t.name)).unwrap_or_default()
}

/// A tool is in the type and in the messages.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deep(name: &str) -> String {
        let schema = format!("{}{{}}{}", r#"{"items": "#.repeat(300), "}".repeat(300));
        format!(r#"{{"type":"function","function":{{"parameters":{schema},"name":{name:?}}}}}"#)
    }

    #[test]
    fn a_tool_that_nests_too_deep_is_named_and_the_others_stay() {
        let (a, c) = (r#"{"name": "a, \"tools\": [{"}"#, r#"{"name":"c"}"#);
        for tools in [
            format!("[{}, {a},{c}]", deep("b")),
            format!("[{a} , {} ,{c} ]", deep("b")),
            format!("[{a},{c}, {}\n]", deep("b")),
            format!("[{},{a},{},{c},{}]", deep("b"), deep("b"), deep("b")),
        ] {
            let tail = format!(
                r#"{{"blocks": [{{"chat": {{"messages": ["tools", []], "tools" : {tools}}}}}], "type": {{"tools": {{"tools": {tools}}}}}}}"#
            );
            let (doc, warnings) = document(tail.as_bytes()).unwrap();
            let left = json!([serde_json::from_str::<Value>(a).unwrap(), {"name": "c"}]);
            assert_eq!(doc["type"]["tools"]["tools"], left, "{tools}");
            assert_eq!(doc["blocks"][0]["chat"], json!({"messages": ["tools", []], "tools": left}));
            assert_eq!(warnings, ["tool \"b\" is left out: nested more than 64 levels deep"]);
        }
    }

    #[test]
    fn what_nests_too_deep_elsewhere_is_an_error() {
        let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
        for tail in [
            format!(r#"{{"tools": {nested}"#),
            format!(r#"{{"tools": {{"a": {nested}}}}}"#),
            // Data that happens to have the name is not cut.
            format!(r#"{{"type": {{"schema": {{"const": {{"tools": [{nested}, 1]}}}}}}}}"#),
            format!(
                r#"{{"type": {{"tools": {{"tools": [{{"tools": [1]}}], "more": {{"tools": [{nested}]}}}}}}}}"#
            ),
            format!(r#"{{"tools": [1], "a": {nested}}}"#),
            format!(r#"{{"type": {{"tools": {{"tools": [{}]}}}}}}"#, deep("only")),
            format!(r#"{{"a": {nested}, "tools": [{nested}]}}"#),
            format!("[{nested}]"),
            nested,
            "[]".into(),
            r#"{"tools": [{"a": "b]"#.into(),
            format!("{{\"tools\": [{}\"\\", "[".repeat(100)),
        ] {
            assert!(document(tail.as_bytes()).is_err(), "{tail}");
        }
        // What is cut out is JSON too.
        for (wrong, place) in [
            (r#"{"name": "b", "a": DEEP, "c": nul}"#, "line 1 column"),
            (r#"{"name": "b", "a": DEEP, "c": 01}"#, "line 1 column"),
            (r#"{"name": "b", "a": DEEP, "c": "\q"}"#, "escape"),
            (r#"{"name": "b", "a": DEEP, "c": [1}]}"#, "line 1 column"),
            (r#"{"name": "b" "a": DEEP}"#, "line 1 column"),
        ] {
            let tool = wrong.replace("DEEP", &format!("{}{}", "[".repeat(100), "]".repeat(100)));
            let tail = format!(r#"{{"type": {{"tools": {{"tools": [{{"name": "a"}}, {tool}]}}}}}}"#);
            let e = document(tail.as_bytes()).unwrap_err();
            let e = format!("{e:?}");
            assert!(e.contains(place), "{wrong}: {e}");
        }
        assert_eq!(document(b"").unwrap(), (json!({}), Vec::new()));
    }
}
