//! A finished reply, taken apart and checked.

use super::python;
use super::{grammar, Tool, ToolSyntax};
use crate::constrain::{json_text, strict};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// A call that a reply makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Of the tool.
    pub name: String,
    /// An object that the tool's schema accepts.
    pub arguments: Value,
}

/// A reply: its text, and its calls in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What was said before the calls, or instead of them.
    pub text: String,
    /// The calls.
    pub calls: Vec<ToolCall>,
}

impl Reply {
    /// From the value of an output whose type was made of tools.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the value is something else.
    pub fn from_value(value: &Value) -> Result<Self> {
        serde_json::from_value(value.clone()).map_err(|e| Error::invalid("value", format!("no reply: {e}")))
    }
}

/// Where a call stands in the text of a reply: begin and end in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallSpan {
    /// The end of what is said before the calls.
    pub said: usize,
    /// The name, with its quotes where there are any.
    pub name: (usize, usize),
    /// The arguments, with their brackets.
    pub arguments: (usize, usize),
}

/// Takes replies apart.
pub(in crate::constrain) struct Reader {
    syntax: ToolSyntax,
    tools: Vec<Tool>,
}

impl Reader {
    pub fn new(syntax: ToolSyntax, tools: Vec<Tool>) -> Self {
        Reader { syntax, tools }
    }

    /// The reply as a value, each call's arguments validated by its tool's schema.
    pub fn check(&self, text: &str) -> Result<Value> {
        let (said, calls) = self
            .split(text)
            .ok_or_else(|| Error::invalid("value", format!("{text:?} is neither text nor whole calls")))?;
        for (name, arguments) in &calls {
            let Some(tool) = self.tools.iter().find(|t| t.name == *name) else {
                return Err(Error::invalid("value", format!("there is no tool {name:?}")));
            };
            tool.checker.validate(arguments)?;
        }
        let calls: Vec<Value> = calls
            .into_iter()
            .map(|(name, arguments)| json!({ "name": name, "arguments": arguments }))
            .collect();
        Ok(json!({ "text": said, "calls": calls }))
    }

    /// The names of the tools, as a call writes them.
    pub fn names(&self) -> Vec<Vec<u8>> {
        let written = |name: &str| match self.syntax {
            ToolSyntax::Pythonic => name.as_bytes().to_vec(),
            _ => json_text(name).into_bytes(),
        };
        self.tools.iter().map(|t| written(&t.name)).collect()
    }

    /// Where the calls of a finished reply stand, which is written as the grammar writes it.
    pub fn spans(&self, text: &str) -> Vec<CallSpan> {
        if !self.calls(text) {
            return Vec::new();
        }
        let said = self.syntax.marker().and_then(|m| text.find(m)).unwrap_or(0);
        let mut found = Vec::new();
        let mut at = said;
        while let Some(call) = self.next_span(text, at, said) {
            at = call.arguments.1;
            found.push(call);
        }
        found
    }

    fn next_span(&self, text: &str, from: usize, said: usize) -> Option<CallSpan> {
        let rest = text.get(from..)?;
        if self.syntax == ToolSyntax::Pythonic {
            // Nothing but these stands before a name.
            let marker = self.syntax.marker().filter(|m| rest.starts_with(*m)).map_or(0, str::len);
            let start = from + marker + rest[marker..].find(|c: char| !matches!(c, '[' | ',' | ' '))?;
            let open = start + text[start..].find('(')?;
            let end = open + python::Reader::new(&text[open + 1..]).arguments_len()? + 1;
            return Some(CallSpan { said, name: (start, open), arguments: (open, end) });
        }
        const BEFORE: &str = "{\"name\": ";
        let name = from + rest.find(BEFORE)? + BEFORE.len();
        let (_, after) = first_json(&text[name..])?;
        let name_end = text.len() - after.len();
        let between = match self.syntax {
            ToolSyntax::Hermes => ", \"arguments\": ",
            _ => ", \"parameters\": ",
        };
        let arguments = text.len() - after.strip_prefix(between)?.len();
        let (_, after) = first_json(&text[arguments..])?;
        Some(CallSpan { said, name: (name, name_end), arguments: (arguments, text.len() - after.len()) })
    }

    /// Whether the text has a call, or the beginning of one.
    pub fn calls(&self, text: &str) -> bool {
        match self.syntax.marker() {
            Some(marker) => text.contains(marker),
            None => text.starts_with(grammar::CALL_JSON),
        }
    }

    fn split<'t>(&self, text: &'t str) -> Option<(&'t str, Vec<(String, Value)>)> {
        if !self.calls(text) {
            return Some((text, Vec::new()));
        }
        match self.syntax {
            ToolSyntax::Hermes => {
                let (said, mut rest) = text.split_once("<tool_call>")?;
                let mut calls = Vec::new();
                loop {
                    let (call, after) = first_json(rest)?;
                    calls.push(named(call, "arguments")?);
                    rest = after.trim_start().strip_prefix("</tool_call>")?.trim_start();
                    if rest.is_empty() {
                        return Some((said, calls));
                    }
                    rest = rest.strip_prefix("<tool_call>")?;
                }
            }
            ToolSyntax::Llama | ToolSyntax::Gemma => {
                let (mut rest, mut calls) = (text, Vec::new());
                loop {
                    let (call, after) = first_json(rest)?;
                    calls.push(named(call, "parameters")?);
                    rest = after.trim_start();
                    rest = rest.strip_prefix(';').unwrap_or(rest).trim_start();
                    if rest.is_empty() {
                        return Some(("", calls));
                    }
                }
            }
            ToolSyntax::Pythonic => {
                let (said, rest) = text.split_once("<|tool_call_start|>")?;
                let rest = rest.trim().strip_suffix("<|tool_call_end|>")?;
                let inner = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
                Some((said, python::Reader::new(inner).calls()?))
            }
        }
    }
}

/// The JSON value that a text begins with, and what follows it.
fn first_json(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    let end = values.byte_offset();
    let value = strict::parse(text.get(..end)?.trim()).ok()?;
    Some((value, &text[end..]))
}

fn named(call: Value, arguments: &str) -> Option<(String, Value)> {
    let Value::Object(mut map) = call else { return None };
    let name = map.get("name")?.as_str()?.to_string();
    let arguments = map.shift_remove(arguments)?;
    Some((name, arguments))
}
