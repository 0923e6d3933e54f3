//! Types: expression to JSON Schema to a matcher over the vocabulary.

use crate::backend::Mask;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::sync::Arc;

/// The type of a value: what is generated and nothing else. Cheap to clone, shared, serialisable.
#[derive(Debug, Clone, PartialEq)]
pub struct Type(Arc<TypeInner>);

#[derive(Debug, PartialEq)]
struct TypeInner {
    source: TypeSource,
}

/// What a type was made from; a checkpoint stores this and compiles it again.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeSource {
    /// A type expression: a JSON value whose leaves are strings in ArkType's notation.
    Expr(Value),
    /// A JSON Schema.
    Schema(Value),
    /// Unquoted text of at most this many characters (Unicode code points), or as long as the budget lasts.
    Text {
        /// Bound, if any.
        max_chars: Option<usize>,
    },
    /// Unquoted text that matches a regular expression as a whole.
    Regex(String),
    /// Unquoted text: one of these strings.
    Choice(Vec<String>),
}

impl Type {
    /// From its source; malformed and unenforceable types are refused here.
    pub fn from_source(_source: TypeSource) -> Result<Self> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// What it was made from.
    pub fn source(&self) -> &TypeSource {
        &self.0.source
    }
    /// Whether values are plain text rather than JSON.
    pub fn is_text(&self) -> bool {
        !matches!(self.0.source, TypeSource::Expr(_) | TypeSource::Schema(_))
    }
    /// The JSON Schema that values satisfy (for text types: of the string).
    pub fn json_schema(&self) -> &Value {
        &Value::Null
    }
    /// Unknown keywords and formats that were taken as annotations: JSON pointer and keyword.
    pub fn warnings(&self) -> &[String] {
        &[]
    }
    /// Parses and validates a finished text, independently of the matcher.
    pub fn check(&self, _text: &str) -> Result<Value> {
        Err(Error::Internal("types are not there yet".into()))
    }
}

/// The vocabulary as the matcher sees it; made once a model, shared.
#[derive(Clone)]
pub struct Vocabulary {}

impl Vocabulary {
    /// From a tokenizer; `vocab` is the number of logits, at least the tokenizer's ids.
    pub fn new(_tokenizer: Arc<Tokenizer>, _vocab: usize) -> Result<Self> {
        Err(Error::Internal("types are not there yet".into()))
    }
}

/// Follows one value through the grammar of its type.
pub struct Matcher {}

impl Matcher {
    /// At the start of a value.
    pub fn new(_ty: &Type, _vocabulary: &Vocabulary) -> Result<Self> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// Tokens that may come next; EOS ids are in it exactly when the value may end here.
    pub fn mask(&mut self) -> Result<Mask> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// Tokens that must come next whatever the model says (canonical tokenisation), possibly none.
    pub fn forced(&mut self) -> Result<Vec<u32>> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// Moves on by one token; one that the mask does not allow is an error.
    pub fn consume(&mut self, _id: u32) -> Result<()> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// Whether the text so far is a whole value.
    pub fn is_accepting(&mut self) -> Result<bool> {
        Err(Error::Internal("types are not there yet".into()))
    }
    /// Whether nothing but the end may follow.
    pub fn is_done(&mut self) -> Result<bool> {
        Err(Error::Internal("types are not there yet".into()))
    }
}
