//! Compiling and rendering: the Jinja environment that transformers gives chat templates.

use super::mark::{Marker, Size};
use super::{data, json, python, source, Chat, Rendered};
use crate::error::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Output, State, Value};
use std::borrow::Cow;

/// Larger templates than any model has (the largest known is 25 kB).
const MAX_TEMPLATE_BYTES: usize = 1 << 17;
/// A template may take this many steps, and so many more per value and per byte of its conversation. A step
/// is an instruction or 64 bytes of data, so this bounds time, memory and output alike, but for what one operator
/// does with one large value (`~`, `==`), which is bounded by the size of values alone.
const STEPS: u64 = 300_000;
const STEPS_PER_NODE: u64 = 1_000;
const MAX_STEPS: u64 = 5_000_000;
const STEPS_PER_BYTE: u64 = 1;
const NAME: &str = "chat";

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compiles a template (`tokenizer.chat_template`). `bos` and `eos` are the texts of those tokens, empty if
    /// the model has none. An error names the line.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self> {
        if source.len() > MAX_TEMPLATE_BYTES {
            let reason = format!("{} bytes are more than {MAX_TEMPLATE_BYTES}", source.len());
            return Err(Error::Template { reason });
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| Error::Internal(e.to_string()))?);
        environment.set_debug(false);
        environment.set_formatter(print);
        environment.set_unknown_method_callback(python::method);
        environment.add_function("raise_exception", python::raise_exception);
        environment.add_function("strftime_now", python::strftime_now);
        environment.add_filter(source::KEEP, data::keep);
        environment.add_filter(source::KEEP_ATTRIBUTE, data::keep_attribute);
        environment.add_filter(source::EACH, python::each);
        environment.add_filter("tojson", json::tojson);
        environment.add_filter("string", python::string);
        environment.add_filter("int", python::int);
        environment.add_filter("float", python::float);
        environment.add_filter("wordcount", python::wordcount);
        environment.add_test("iterable", python::is_iterable);
        let prepared = source::prepare(source).map_err(|reason| Error::Template { reason })?;
        environment.add_template_owned(NAME, prepared).map_err(template_error)?;
        Ok(ChatTemplate { environment, source: source.into(), bos: bos.into(), eos: eos.into() })
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The conversation as text. `control` names the control tokens whose literals in message content are
    /// to stay text (ignored when the chat is trusted).
    pub fn render(&self, chat: &Chat, control: &[&str]) -> Result<Rendered> {
        let mut size = Size::default();
        let variables = chat.variables.values();
        for value in chat.messages.iter().chain(chat.tools.iter().flatten()).chain(variables) {
            size.add(value, 1)?;
        }
        let mut marker = match chat.trusted {
            true => None,
            false => Marker::new(control, |c| !self.source.contains(c) && !mentions(chat, c))?,
        };
        let mut pass = |value: &serde_json::Value| to_value(value, &mut marker);
        let mut context: Vec<(String, Value)> = vec![
            ("bos_token".into(), self.bos.as_str().into()),
            ("eos_token".into(), self.eos.as_str().into()),
            ("add_generation_prompt".into(), chat.add_generation_prompt.into()),
            ("documents".into(), ().into()),
            ("messages".into(), chat.messages.iter().map(|message| pass(&with_reasoning(message))).collect()),
        ];
        let tools = chat.tools.as_ref().filter(|tools| !tools.is_empty());
        context.push((
            "tools".into(),
            match tools {
                Some(tools) => tools.iter().map(&mut pass).collect(),
                None => ().into(),
            },
        ));
        context.extend(chat.variables.iter().map(|(name, value)| (name.clone(), pass(value))));
        let text = self.run(Value::from_pairs(context), size)?;
        Ok(Rendered { text, marker: marker.and_then(|m| m.used()) })
    }

    fn run(&self, context: Value, size: Size) -> Result<String> {
        let steps = STEPS
            .saturating_add(size.nodes.saturating_mul(STEPS_PER_NODE))
            .saturating_add(size.bytes.saturating_mul(STEPS_PER_BYTE))
            .min(MAX_STEPS);
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(steps));
        let template = environment.get_template(NAME).map_err(template_error)?;
        template.render(context).map_err(template_error)
    }
}

/// A message's reasoning goes by several names; the reference gives templates the ones that they read.
fn with_reasoning(message: &serde_json::Value) -> Cow<'_, serde_json::Value> {
    let names = ["reasoning_content", "thinking", "reasoning"];
    let reasoning = names.iter().find_map(|name| message.get(name).filter(|value| !value.is_null()));
    let (Some(reasoning), Some(fields)) = (reasoning, message.as_object()) else {
        return Cow::Borrowed(message);
    };
    let mut named = serde_json::Map::new();
    named.insert("thinking".into(), reasoning.clone());
    named.extend(fields.clone());
    named.insert("reasoning_content".into(), reasoning.clone());
    Cow::Owned(named.into())
}

/// JSON to a template's value, with markers in its strings. Its depth was checked by [`Size::add`].
fn to_value(value: &serde_json::Value, marker: &mut Option<Marker>) -> Value {
    use serde_json::Value as Json;
    let string = |s: &str, marker: &mut Option<Marker>| match marker {
        Some(marker) => Value::from(marker.string(s)),
        None => Value::from(s),
    };
    match value {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Value::from(n),
            (None, Some(n)) => Value::from(n),
            _ => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => string(s, marker),
        Json::Array(items) => items.iter().map(|item| to_value(item, marker)).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, item)| (string(key, marker), to_value(item, marker))))
        }
    }
}

/// Whether a character occurs anywhere in a conversation.
fn mentions(chat: &Chat, c: char) -> bool {
    fn value_mentions(value: &serde_json::Value, c: char) -> bool {
        match value {
            serde_json::Value::String(s) => s.contains(c),
            serde_json::Value::Array(items) => items.iter().any(|item| value_mentions(item, c)),
            serde_json::Value::Object(map) => {
                map.iter().any(|(key, item)| key.contains(c) || value_mentions(item, c))
            }
            _ => false,
        }
    }
    let values = chat.messages.iter().chain(chat.tools.iter().flatten()).chain(chat.variables.values());
    values.into_iter().any(|value| value_mentions(value, c))
}

/// `{{ ... }}` prints as Python's `str` does.
fn print(out: &mut Output, state: &mut State, value: &Value) -> std::result::Result<(), minijinja::Error> {
    match value.as_str() {
        Some(s) => out.write_str(s).map_err(minijinja::Error::from),
        None if value.is_undefined() => Ok(()),
        None => python::Repr { state, out }.value(value, 0),
    }
}

fn template_error(e: minijinja::Error) -> Error {
    let mut source = std::error::Error::source(&e);
    while let Some(inner) = source {
        if let Some(python::Raised(message)) = inner.downcast_ref() {
            return Error::Template { reason: message.clone() };
        }
        source = inner.source();
    }
    let reason = match e.kind() {
        minijinja::ErrorKind::OutOfFuel => {
            "it does more work than a conversation of this size justifies".to_owned()
        }
        kind => match e.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    Error::Template {
        reason: match e.line() {
            Some(line) => format!("line {line}: {reason}"),
            None => reason,
        },
    }
}
