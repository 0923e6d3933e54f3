//! Tools: a reply that is text or calls, in the syntax that a model was trained on.
//!
//! The arguments of every call are values of the tool's schema. Each tool is compiled by itself, so that one whose
//! schema cannot be enforced is named and left out, and the others stay.

mod grammar;
mod python;
mod reply;

pub(crate) use reply::CallSpan;
pub(super) use reply::Reader;
pub use reply::{Reply, ToolCall};

use super::check::Checker;
use super::lower::Low;
use super::{emit, lower, read};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};

/// Tools of one type.
const MAX_TOOLS: usize = 500;
/// Characters of a tool's name.
const MAX_NAME: usize = 256;

/// How a model writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSyntax {
    /// `<tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>`, several one after the other: Qwen 2.5, Qwen 3,
    /// SmolLM2, Hermes.
    Hermes,
    /// `{"name": "f", "parameters": {...}}` as the whole reply, several with `; ` between them: Llama 3.
    Llama,
    /// The same with line ends between them, as Gemma's documentation has it.
    Gemma,
    /// `<|tool_call_start|>[f(a=1), g(b="x")]<|tool_call_end|>`, in Python's notation: LFM2.
    Pythonic,
}

impl ToolSyntax {
    /// What comes before a call, and so cannot be part of the text; `None` where the reply is text or calls.
    pub(crate) fn marker(self) -> Option<&'static str> {
        match self {
            ToolSyntax::Hermes => Some("<tool_call>"),
            ToolSyntax::Pythonic => Some("<|tool_call_start|>"),
            ToolSyntax::Llama | ToolSyntax::Gemma => None,
        }
    }

    /// Names of tokens that the syntax writes though they are control tokens.
    pub(crate) const MARKERS: [&'static str; 4] =
        ["<tool_call>", "</tool_call>", "<|tool_call_start|>", "<|tool_call_end|>"];
}

/// Whether a reply may, or must, call a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// Text, or calls, or text and then calls.
    #[default]
    Auto,
    /// One call or more of any tool.
    Required,
    /// One call of this tool.
    Tool(String),
}

/// The tools of a type, and how they are called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Each `{"type": "function", "function": {"name", "description", "parameters"}}`, or the inner object alone.
    pub tools: Vec<Value>,
    /// How calls are written; `None` is the model's own way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syntax: Option<ToolSyntax>,
    /// Whether a reply must call one.
    #[serde(default)]
    pub choice: ToolChoice,
    /// Whether a reply may have several calls. Default true.
    #[serde(default = "yes")]
    pub parallel: bool,
}

fn yes() -> bool {
    true
}

impl Tools {
    /// Tools that a reply may call, several at once, in the model's own syntax.
    pub fn new(tools: Vec<Value>) -> Self {
        Tools { tools, syntax: None, choice: ToolChoice::Auto, parallel: true }
    }
}

/// A tool that is taken.
pub(super) struct Tool {
    pub name: String,
    pub checker: Checker,
    lows: Vec<Low>,
}

/// What a type needs of its tools.
pub(super) struct Compiled {
    pub schema: Value,
    pub warnings: Vec<String>,
    pub refused: Vec<(String, Error)>,
    pub lows: Vec<Low>,
    pub words: &'static str,
    pub reply: Reader,
}

/// Compiles each tool, and the reply that may call them.
pub(super) fn compile(source: &Tools) -> Result<Compiled> {
    let syntax = source.syntax.unwrap_or(ToolSyntax::Hermes);
    if source.tools.is_empty() || source.tools.len() > MAX_TOOLS {
        return Err(Error::ty("", "tools", format!("there are 1 to {MAX_TOOLS} tools")));
    }
    let (mut tools, mut refused, mut warnings) = (Vec::<Tool>::new(), Vec::new(), Vec::new());
    for (i, value) in source.tools.iter().enumerate() {
        let name = name_of(value, i)?;
        if tools.iter().any(|t| t.name == name) || refused.iter().any(|(n, _)| *n == name) {
            return Err(Error::ty(format!("/{i}"), "name", format!("there are two tools {name:?}")));
        }
        match tool(value, name, syntax, &mut warnings) {
            Ok(tool) => tools.push(tool),
            Err(e) => {
                warnings.push(format!("tool {name:?} is left out: {e}"));
                refused.push((name.to_string(), e));
            }
        }
    }
    let several = source.parallel && !matches!(source.choice, ToolChoice::Tool(_));
    if let ToolChoice::Tool(wanted) = &source.choice {
        if let Some((name, e)) = refused.iter().find(|(name, _)| name == wanted) {
            return Err(of_tool(name, e));
        }
        tools.retain(|t| t.name == *wanted);
        if tools.is_empty() {
            return Err(Error::ty("", "choice", format!("there is no tool {wanted:?}")));
        }
    }
    if let ([], Some((name, e))) = (tools.as_slice(), refused.first()) {
        return Err(of_tool(name, e));
    }
    let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "calls": { "type": "array", "items": {
                "type": "object",
                "properties": { "name": { "enum": names }, "arguments": { "type": "object" } },
                "required": ["name", "arguments"],
                "additionalProperties": false,
            } },
        },
        "required": ["text", "calls"],
        "additionalProperties": false,
    });
    let calls: Vec<(&str, &[Low])> = tools.iter().map(|t| (t.name.as_str(), t.lows.as_slice())).collect();
    let lows = grammar::reply(syntax, &calls, source.choice == ToolChoice::Auto, several);
    let words = words(syntax);
    Ok(Compiled { schema, warnings, refused, lows, words, reply: Reader::new(syntax, tools) })
}

/// What is wrong with the schema of a tool, with its name.
fn of_tool(name: &str, error: &Error) -> Error {
    match error {
        Error::Type { at, keyword, reason } => {
            Error::ty(at.clone(), keyword.clone(), format!("tool {name:?}: {reason}"))
        }
        other => other.clone(),
    }
}

fn words(syntax: ToolSyntax) -> &'static str {
    match syntax {
        ToolSyntax::Pythonic => lower::PYTHON_WORDS,
        _ => lower::JSON_WORDS,
    }
}

/// The object that describes a function, with or without the wrapping of OpenAI's form.
fn function(value: &Value) -> Option<&Map<String, Value>> {
    value.get("function").unwrap_or(value).as_object()
}

fn name_of(value: &Value, index: usize) -> Result<&str> {
    let wrong = |at: &str, reason: &str| Err(Error::ty(format!("/{index}{at}"), "name", reason));
    let at = if value.get("function").is_some() { "/function" } else { "" };
    let Some(function) = function(value) else { return wrong(at, "a tool is an object") };
    match function.get("name") {
        None => wrong(at, "a tool has a name"),
        Some(Value::String(name)) if name.is_empty() => wrong(at, "the name of a tool is not empty"),
        Some(Value::String(name)) if name.len() > MAX_NAME => {
            wrong(at, &format!("the name of a tool has at most {MAX_NAME} bytes, not {}", name.len()))
        }
        Some(Value::String(name)) => match name.chars().find(|c| c.is_control()) {
            Some(c) => wrong(at, &format!("the name of a tool has no control characters such as {c:?}")),
            None => Ok(name),
        },
        Some(_) => wrong(at, "the name of a tool is a string"),
    }
}

fn tool(value: &Value, name: &str, syntax: ToolSyntax, warnings: &mut Vec<String>) -> Result<Tool> {
    let schema = parameters(value)?;
    let graph = read::read(&schema)?;
    let checker = Checker::for_schema(&schema, &graph.follow)?;
    let words = words(syntax);
    let mut lowered = lower::lower(&graph, words)?;
    let lows = &mut lowered.defs;
    if syntax == ToolSyntax::Pythonic {
        python::keyword_arguments(name, lows)?;
    }
    // By itself first, so that a tool that is too large is the one that is left out.
    emit::emit(&lowered.defs, words).map_err(|e| lowered.blamed(e, &schema))?;
    let found = lowered.warnings(graph.warnings);
    warnings.extend(found.iter().map(|w| format!("tool {name:?}: {w}")));
    Ok(Tool { name: name.to_string(), checker, lows: lowered.defs })
}

/// The schema of a tool's arguments: an object, without further keys unless it speaks of them.
fn parameters(value: &Value) -> Result<Value> {
    let mut schema = match function(value).and_then(|f| f.get("parameters").or(f.get("input_schema"))) {
        None | Some(Value::Null) => json!({}),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => return Err(Error::ty("", "parameters", "the arguments' schema is an object")),
    };
    if let Some(map) = schema.as_object_mut() {
        if map.contains_key("type")
            || !map.keys().any(|k| ["$ref", "allOf", "anyOf", "oneOf"].contains(&k.as_str()))
        {
            map.entry("type").or_insert_with(|| json!("object"));
            let empty = map.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
            let speaks = [
                "additionalProperties",
                "patternProperties",
                "propertyNames",
                "$ref",
                "allOf",
                "anyOf",
                "oneOf",
            ];
            if empty && !map.keys().any(|k| speaks.contains(&k.as_str())) {
                // A function without parameters.
                map.insert("additionalProperties".into(), json!(false));
            }
        }
    }
    Ok(schema)
}
