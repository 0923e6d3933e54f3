//! The second opinion: a finished text is parsed and validated by code that the grammar never saw.

use super::dialect;
use super::pattern::Pattern;
use super::strict;
use crate::error::{Error, Result};
use jsonschema::Validator;
use serde_json::Value;

/// Validates finished texts of one type.
pub(super) enum Checker {
    Json(Box<Validator>),
    Text { max_chars: Option<u64> },
    Regex(Pattern),
    Choice(Vec<String>),
}

impl Checker {
    /// Compiles a schema for the independent validator.
    pub fn for_schema(schema: &Value) -> Result<Self> {
        let draft = dialect::detect(schema).draft();
        let mut schema = schema.clone();
        if let Some(map) = schema.as_object_mut() {
            // The draft is known, and nothing is fetched.
            map.shift_remove("$schema");
        }
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            // Annotations here, in every draft.
            .without_content_encoding_support("base64")
            .without_content_media_type_support("application/json")
            .build(&schema)
            .map(|v| Checker::Json(Box::new(v)))
            .map_err(|e| Error::ty(e.instance_path(), "schema", e.to_string()))
    }

    pub fn check(&self, text: &str) -> Result<Value> {
        let wrong = |reason: String| Err(Error::invalid("value", reason));
        match self {
            Checker::Json(validator) => {
                let value = strict::parse(text).map_err(|e| {
                    let at = e.character.map(|n| format!(" at character {n}")).unwrap_or_default();
                    Error::invalid("value", format!("no JSON: {}{at}", e.reason))
                })?;
                match validator.validate(&value) {
                    Ok(()) => Ok(value),
                    Err(e) => wrong(format!("at {:?}: {e}", e.instance_path().to_string())),
                }
            }
            Checker::Text { max_chars: Some(max) } if text.chars().count() as u64 > *max => {
                wrong(format!("the text is longer than {max} characters"))
            }
            Checker::Regex(pattern) if !pattern.matches(text) => {
                wrong(format!("the text does not match {pattern:?}"))
            }
            Checker::Choice(list) if !list.iter().any(|s| s == text) => {
                wrong("the text is none of the choices".into())
            }
            _ => Ok(Value::String(text.to_string())),
        }
    }
}
