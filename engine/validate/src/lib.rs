//! JSON Schema validation of finished values, by a library that the engine's grammars know nothing of.
//!
//! A crate of its own because the library is generic in everything: here it is compiled once, and whoever changes the
//! engine does not compile it again.
#![deny(missing_docs)]

pub use jsonschema::Draft;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Number, Value};

/// Makes the check of a `multipleOf` out of its step; `None` for a step that is no number above zero.
pub type MultipleOf = fn(step: &Number) -> Option<IsMultiple>;

/// Whether a number is a multiple of the step.
pub type IsMultiple = Box<dyn Fn(&Number) -> bool + Send + Sync>;

/// A compiled schema.
pub struct Validator(jsonschema::Validator);

/// What a schema or a value does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// JSON pointer into the schema (when compiling) or the value (when checking).
    pub at: String,
    /// The string at that place, if it is one.
    pub text: Option<String>,
    /// For people.
    pub reason: String,
}

impl Validator {
    /// Compiles a schema of a draft, whose own `$schema` should be gone. Formats are checked, nothing is fetched.
    ///
    /// # Errors
    /// What the library does not take.
    pub fn new(schema: &Value, draft: Draft, multiple_of: MultipleOf) -> Result<Self, Fault> {
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            // Annotations here, in every draft.
            .without_content_encoding_support("base64")
            .without_content_media_type_support("application/json")
            .with_keyword("multipleOf", move |_, step, _| {
                let check = step.as_number().and_then(multiple_of);
                let check =
                    check.ok_or_else(|| ValidationError::custom("multipleOf is a number above zero"))?;
                Ok(Box::new(Multiple { check, step: step.to_string() }))
            })
            .build(schema)
            .map(Validator)
            .map_err(|e| fault(&e))
    }

    /// Whether a value is an instance.
    ///
    /// # Errors
    /// The first place where it is not.
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        self.0.validate(value).map_err(|e| fault(&e))
    }
}

fn fault(e: &ValidationError) -> Fault {
    Fault {
        at: e.instance_path().to_string(),
        text: e.instance().as_str().map(str::to_string),
        reason: e.to_string(),
    }
}

/// `multipleOf`, in the caller's arithmetic.
struct Multiple {
    check: IsMultiple,
    step: String,
}

impl<'i> Keyword<'i> for Multiple {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{instance} is not a multiple of {}", self.step)))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        instance.as_number().is_none_or(|n| (self.check)(n))
    }
}
