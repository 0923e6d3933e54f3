//! The second opinion: a finished text is parsed and validated by code that the grammar never saw.

use super::decimal::Decimal;
use super::pattern::Pattern;
use super::{dialect, pattern_parser, portable, strict};
use crate::error::{Error, Result};
use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::Value;

/// Characters of a pattern that is not refused for its size.
const SMALL_PATTERN: u64 = 500;

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
        portable::rewrite(&mut schema);
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            // Annotations here, in every draft.
            .without_content_encoding_support("base64")
            .without_content_media_type_support("application/json")
            .with_keyword("multipleOf", |_, step, _| {
                let step = step.as_number().and_then(Decimal::of).filter(|d| !d.is_zero());
                let step =
                    step.ok_or_else(|| ValidationError::custom("multipleOf is a number above zero"))?;
                Ok(Box::new(MultipleOf(step)))
            })
            .build(&schema)
            .map(|v| Checker::Json(Box::new(v)))
            .map_err(|e| refused(&e))
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

/// Why the validator does not take a schema.
fn refused(e: &ValidationError) -> Error {
    let at = e.instance_path().to_string();
    let (at, keyword) = at.rsplit_once('/').unwrap_or(("", "schema"));
    let source = e.instance().as_str().filter(|_| keyword == "pattern");
    // It names the pattern alone, whatever the reason.
    let reason = match source.and_then(|s| pattern_parser::parse(s).ok()).map(|tree| tree.size()) {
        Some(size) if size > SMALL_PATTERN => {
            format!("the pattern is too large for the final validation: {size} characters with its repetitions written out")
        }
        Some(_) => "the final validation does not take the pattern".to_string(),
        None => e.to_string(),
    };
    Error::ty(at, keyword, reason)
}

/// `multipleOf` in decimal arithmetic: in binary, 0.3 is no multiple of 0.1.
struct MultipleOf(Decimal);

impl<'i> Keyword<'i> for MultipleOf {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{instance} is not a multiple of {}", self.0.text())))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        match instance {
            Value::Number(n) => Decimal::of(n).is_some_and(|d| d.is_multiple_of(&self.0)),
            _ => true,
        }
    }
}
