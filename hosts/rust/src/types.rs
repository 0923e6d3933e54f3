//! What may be generated.

use serde::Serialize;
use serde_json::{json, Value};

/// What is generated, and nothing else: the notation is in `docs/types.md`. The value is then decoded with serde into the
/// type that the caller names, so the two should agree. What cannot be enforced exactly is [`crate::Error::TYPE`] before
/// the first token.
#[derive(Debug, Clone, PartialEq)]
pub struct Type(pub(crate) Result<Value, String>);

impl Type {
    /// A type expression: JSON whose leaves are strings such as `string < 64`, or one such string.
    pub fn expr(expression: &str) -> Self {
        let text = expression.trim();
        if !text.starts_with(['{', '[']) {
            return Self(Ok(json!({"expr": expression})));
        }
        let parsed = serde_json::from_str::<Value>(text);
        Self(parsed.map(|e| json!({"expr": e})).map_err(|e| format!("the type expression is no JSON: {e}")))
    }

    /// A JSON Schema, from anything that serde makes JSON of; properties come in their order.
    pub fn schema(schema: impl Serialize) -> Self {
        let schema = serde_json::to_value(schema);
        Self(schema.map(|s| json!({"schema": s})).map_err(|e| format!("the schema is no JSON: {e}")))
    }

    /// A JSON Schema, from its text.
    pub fn schema_text(schema: &str) -> Self {
        let schema = serde_json::from_str::<Value>(schema);
        Self(schema.map(|s| json!({"schema": s})).map_err(|e| format!("the schema is no JSON: {e}")))
    }

    /// Unquoted text, of any length.
    pub fn text() -> Self {
        Self(Ok(json!({"text": {"max_chars": null}})))
    }

    /// Unquoted text of at most so many characters.
    pub fn text_up_to(max_chars: usize) -> Self {
        Self(Ok(json!({"text": {"max_chars": max_chars}})))
    }

    /// Unquoted text that an ECMA-262 regular expression matches as a whole.
    pub fn regex(pattern: &str) -> Self {
        Self(Ok(json!({"regex": pattern})))
    }

    /// Unquoted text: one of these.
    pub fn choice<S: Into<String>>(choices: impl IntoIterator<Item = S>) -> Self {
        let choices: Vec<String> = choices.into_iter().map(Into::into).collect();
        Self(Ok(json!({"choice": choices})))
    }

    /// Text or calls of these tools, in the syntax of the model's family; the value is `{"text", "calls": [{"name",
    /// "arguments"}]}`. The document is `{"tools": [..], "choice": ..}` as in `bridge/PROTOCOL.md`.
    pub fn tools(document: Value) -> Self {
        Self(Ok(json!({"tools": document})))
    }
}
