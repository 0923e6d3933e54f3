//! The second opinion: a finished text is parsed and validated by code that the grammar never saw.

use super::decimal::Decimal;
use super::pattern::Pattern;
use super::read::Follow;
use super::tools::Reader;
use super::{dialect, pattern_parser, portable, strict};
use crate::error::{Error, Result};
use lean_validate::{Fault, IsMultiple, Validator};
use serde_json::{Number, Value};

/// Characters of a pattern that is not refused for its size.
const SMALL_PATTERN: u64 = 500;

/// Validates finished texts of one type.
pub(super) enum Checker {
    Json(Box<Validator>),
    Text { max_chars: Option<u64> },
    Regex(Pattern),
    Choice(Vec<String>),
    Reply(Reader),
}

impl Checker {
    /// Compiles a schema for the independent validator.
    pub fn for_schema(source: &Value, follow: &Follow) -> Result<Self> {
        let draft = dialect::detect(source).draft();
        let json = |validator| Checker::Json(Box::new(validator));
        if let Follow::Once(references) = follow {
            let mut parts = references.parts(source)?;
            parts.iter_mut().for_each(portable::rewrite);
            return Validator::of_parts(&parts, draft, multiple_of).map(json).map_err(|(part, fault)| {
                let at = references.defs.get(part).map_or("", String::as_str);
                refused(source, &Fault { at: format!("{at}{}", fault.at), ..fault })
            });
        }
        let mut schema = source.clone();
        if let Some(map) = schema.as_object_mut() {
            // The draft is known, and nothing is fetched.
            map.shift_remove("$schema");
        }
        portable::rewrite(&mut schema);
        let places = !matches!(follow, Follow::Blindly);
        Validator::new(&schema, draft, multiple_of, places)
            .map(json)
            .map_err(|fault| refused(&schema, &fault))
    }

    /// Validates a value that was parsed already; only of JSON types.
    pub fn validate(&self, value: &Value) -> Result<()> {
        match self {
            Checker::Json(validator) => validate(validator, value),
            _ => Err(Error::Internal("only JSON types validate values".into())),
        }
    }

    pub fn check(&self, text: &str) -> Result<Value> {
        let wrong = |reason: String| Err(Error::invalid("value", reason));
        match self {
            Checker::Json(validator) => {
                let value = strict::parse(text).map_err(|e| {
                    let at = e.character.map(|n| format!(" at character {n}")).unwrap_or_default();
                    Error::invalid("value", format!("no JSON: {}{at}", e.reason))
                })?;
                validate(validator, &value)?;
                Ok(value)
            }
            Checker::Reply(reader) => reader.check(text),
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

fn validate(validator: &Validator, value: &Value) -> Result<()> {
    validator.check(value).map_err(|e| Error::invalid("value", format!("at {:?}: {}", e.at, e.reason)))
}

/// Why the validator does not take a schema.
fn refused(schema: &Value, fault: &Fault) -> Error {
    let (at, keyword) = match fault.at.rsplit_once('/') {
        // A whole schema breaks the rule, not the value of a keyword.
        Some((_, name))
            if !dialect::is_keyword(name) && schema.pointer(&fault.at).is_some_and(Value::is_object) =>
        {
            (fault.at.as_str(), "schema")
        }
        Some((at, keyword)) => (at, keyword),
        None => ("", "schema"),
    };
    let source = fault.text.as_deref().filter(|_| keyword == "pattern");
    // It names the pattern alone, whatever the reason.
    let reason = match source.and_then(|s| pattern_parser::parse(s).ok()).map(|tree| tree.size()) {
        Some(size) if size > SMALL_PATTERN => {
            format!("the pattern is too large for the final validation: {size} characters with its repetitions written out")
        }
        Some(_) => "the final validation does not take the pattern".to_string(),
        None => fault.reason.clone(),
    };
    Error::ty(at, keyword, reason)
}

/// `multipleOf` in decimal arithmetic: in binary, 0.3 is no multiple of 0.1.
fn multiple_of(step: &Number) -> Option<IsMultiple> {
    let step = Decimal::of(step).filter(|d| !d.is_zero())?;
    Some(Box::new(move |n| Decimal::of(n).is_some_and(|d| d.is_multiple_of(&step))))
}
