//! JSON Schema validation of finished values, by a library that the engine's grammars know nothing of.
//!
//! A crate of its own because the library is generic in everything: here it is compiled once, and whoever changes the
//! engine does not compile it again.
#![deny(missing_docs)]

mod parts;

pub use jsonschema::Draft;
use jsonschema::{Keyword, ValidationError, ValidationOptions};
use parts::Parts;
pub use parts::{PART, UNREAD};
use serde_json::{Number, Value};

/// Makes the check of a `multipleOf` out of its step; `None` for a step that is no number above zero.
pub type MultipleOf = fn(step: &Number) -> Option<IsMultiple>;

/// Whether a number is a multiple of the step.
pub type IsMultiple = Box<dyn Fn(&Number) -> bool + Send + Sync>;

/// A compiled schema.
pub struct Validator(Compiled);

enum Compiled {
    /// With whether a fault is looked for.
    Whole(Box<jsonschema::Validator>, bool),
    Parts(Parts),
}

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

impl Fault {
    fn nowhere(reason: String) -> Self {
        Fault { at: String::new(), text: None, reason }
    }
}

impl Validator {
    /// Compiles a schema of a draft, whose own `$schema` should be gone. Formats are checked, nothing is fetched.
    /// Without `places` a fault does not say where it is: the library remembers of recursive references whether they hold,
    /// but goes through all of them again to find out where one does not.
    ///
    /// # Errors
    /// What the library does not take.
    pub fn new(schema: &Value, draft: Draft, multiple_of: MultipleOf, places: bool) -> Result<Self, Fault> {
        let whole = options(draft, multiple_of).build(schema).map_err(|e| fault(&e))?;
        Ok(Validator(Compiled::Whole(Box::new(whole), places)))
    }

    /// Compiles a schema in parts without references of their own: [`PART`] refers to one by its number. The first part is
    /// the schema. The work of a check is at most parts times values, however they refer to each other.
    ///
    /// # Errors
    /// What the library does not take, with the number of the part.
    pub fn of_parts(parts: &[Value], draft: Draft, multiple_of: MultipleOf) -> Result<Self, (usize, Fault)> {
        Ok(Validator(Compiled::Parts(Parts::new(parts, draft, multiple_of)?)))
    }

    /// Whether a value is an instance.
    ///
    /// # Errors
    /// The first place where it is not.
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        match &self.0 {
            Compiled::Whole(whole, _) if whole.is_valid(value) => Ok(()),
            Compiled::Whole(_, false) => Err(Fault::nowhere("the value is not valid".into())),
            Compiled::Whole(whole, true) => whole.validate(value).map_err(|e| fault(&e)),
            Compiled::Parts(parts) => parts.check(value),
        }
    }
}

/// What every schema is compiled with.
fn options<'i>(draft: Draft, multiple_of: MultipleOf) -> ValidationOptions<'i> {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(true)
        // Annotations here, in every draft.
        .without_content_encoding_support("base64")
        .without_content_media_type_support("application/json")
        .with_keyword("multipleOf", move |_, step, _| {
            let check = step.as_number().and_then(multiple_of);
            let check = check.ok_or_else(|| ValidationError::custom("multipleOf is a number above zero"))?;
            Ok(Box::new(Multiple { check, step: step.to_string() }))
        })
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
