//! Types: expression to JSON Schema to a matcher over the vocabulary.
//!
//! ```text
//! expression --expr--> JSON Schema --read--> nodes --lower--> generated values --emit--> grammar --> matcher
//! ```
//! `read` is exact: it says what validates. `lower` decides what is generated of that (closed objects, stated
//! kinds) and turns exclusions into unions. A finished text is validated once more by [`Type::check`], which
//! shares nothing with that path.

mod algebra;
mod cache;
mod check;
mod counted;
mod decimal;
mod dialect;
mod emit;
mod exact;
mod exclude;
mod expr;
mod expr_leaf;
mod formats;
mod keys;
mod lower;
mod masks;
mod matcher;
mod node;
mod nothing;
mod numbers;
mod pattern;
mod pattern_parser;
mod pointer;
mod portable;
mod read;
mod read_kinds;
mod references;
mod rules;
mod shortest;
mod size;
mod spelled;
mod stop;
mod strict;
#[cfg(test)]
mod tests;
mod tools;
mod unevaluated;
mod unique;
mod vocabulary;

pub use matcher::Matcher;
pub(crate) use shortest::Steer;
pub(crate) use stop::under;
pub(crate) use tools::CallSpan;
pub use tools::{Reply, ToolCall, ToolChoice, ToolSyntax, Tools};
pub use vocabulary::Vocabulary;

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use check::Checker;
use emit::Emitted;
use llguidance::derivre::RegexAst;
use lower::Low;
use pattern::Pattern;
use serde_json::{json, Value};
use shortest::Shortest;
use std::fmt;
use std::sync::{Arc, OnceLock};
use web_time::Instant;

/// Alternatives of a choice.
const MAX_CHOICES: usize = 20_000;

/// The type of a value: what is generated and nothing else. Cheap to clone, shared, serialisable.
///
/// Two types are equal if they were made from the same source.
#[derive(Clone)]
pub struct Type(Arc<TypeInner>);

struct TypeInner {
    source: TypeSource,
    schema: Value,
    warnings: Vec<String>,
    emitted: Emitted,
    checker: Checker,
    generated: Generated,
    /// Tools that were left out, and why.
    refused: Vec<(String, Error)>,
    /// Made when a value is first generated.
    shortest: OnceLock<Result<Shortest>>,
}

/// What values are made of.
enum Generated {
    /// With the words for `null`, `true` and `false`.
    Json(Vec<Low>, &'static str),
    Text(RegexAst),
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
    /// Unquoted text that matches a regular expression (ECMA-262) as a whole.
    Regex(String),
    /// Unquoted text: one of these strings.
    Choice(Vec<String>),
    /// Text or calls of tools, in a model's own syntax; the value is a [`Reply`].
    Tools(Tools),
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.source == other.0.source
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Type").field(&self.0.source).finish()
    }
}

impl Type {
    /// From its source.
    ///
    /// # Errors
    /// [`Error::Type`] for malformed types and for those that cannot be enforced exactly: the JSON pointer or
    /// the character, the keyword, and the reason.
    pub fn from_source(source: TypeSource) -> Result<Self> {
        if let Some(ty) = cache::find(&source) {
            return Ok(ty);
        }
        let ty = Self::compiled(source)?;
        cache::keep(&ty);
        Ok(ty)
    }

    /// The same, given up once nobody waits for it any more: types of tens of thousands of words take seconds.
    ///
    /// # Errors
    /// As [`Type::from_source`], and [`Error::Cancelled`] or [`Error::Timeout`].
    pub fn from_source_within(
        source: TypeSource,
        cancel: &CancelToken,
        deadline: Option<Instant>,
    ) -> Result<Self> {
        under(cancel, deadline, || Self::from_source(source))
    }

    fn compiled(source: TypeSource) -> Result<Self> {
        let mut refused = Vec::new();
        let Compiled { schema, warnings, emitted, checker, generated } = match &source {
            TypeSource::Tools(source) => {
                let tools = tools::compile(source)?;
                refused = tools.refused;
                Compiled {
                    schema: tools.schema,
                    warnings: tools.warnings,
                    emitted: emit::emit(&tools.lows, tools.words)?,
                    checker: Checker::Reply(tools.reply),
                    generated: Generated::Json(tools.lows, tools.words),
                }
            }
            TypeSource::Expr(expr) => compile(expr::to_schema(expr)?)?,
            TypeSource::Schema(schema) => compile(schema.clone())?,
            TypeSource::Text { max_chars } => {
                let max = max_chars.map(|n| n as u64);
                let schema = match max {
                    Some(n) => json!({ "type": "string", "maxLength": n }),
                    None => json!({ "type": "string" }),
                };
                Compiled::text(schema, algebra::length_language(0, max), Checker::Text { max_chars: max })?
            }
            TypeSource::Regex(source) => {
                let pattern = Pattern::whole(source)
                    .map_err(|e| Error::ty(format!("character {}", e.at + 1), "regex", e.reason))?;
                match pattern::is_empty(pattern.ast()) {
                    Some(false) => {}
                    Some(true) => return Err(Error::ty("character 1", "regex", "it matches no text")),
                    None => return Err(Error::ty("character 1", "regex", "it is too complex")),
                }
                let schema = json!({ "type": "string", "pattern": format!("^(?:{source})$") });
                Compiled::text(schema, pattern.ast().clone(), Checker::Regex(pattern))?
            }
            TypeSource::Choice(list) => choice(list)?,
        };
        let shortest = OnceLock::new();
        let ty = Type(Arc::new(TypeInner {
            source,
            schema,
            warnings,
            emitted,
            checker,
            generated,
            refused,
            shortest,
        }));
        if ty.has_unique() {
            ty.shortest()?.check_unique()?;
        }
        Ok(ty)
    }

    /// From the text of a type expression: JSON, or a bare leaf such as `string < 64`.
    ///
    /// # Errors
    /// [`Error::Type`] that points at the character.
    pub fn expr(text: &str) -> Result<Self> {
        Self::from_source(TypeSource::Expr(expr::from_text(text)?))
    }

    /// From the text of a JSON Schema.
    ///
    /// # Errors
    /// [`Error::Type`] with JSON pointer, keyword and reason; malformed JSON is reported by its character.
    pub fn schema(text: &str) -> Result<Self> {
        let value = strict::parse(text).map_err(|e| match e.character {
            Some(n) => Error::ty(format!("character {n}"), "JSON", e.reason),
            None => Error::ty("schema", "JSON", e.reason),
        })?;
        exact::check(text)?;
        Self::schema_value(value)
    }

    /// From a JSON Schema.
    ///
    /// # Errors
    /// As [`Type::schema`].
    pub fn schema_value(schema: Value) -> Result<Self> {
        Self::from_source(TypeSource::Schema(schema))
    }

    /// Unquoted text, as long as the budget lasts.
    ///
    /// # Errors
    /// None in practice; the signature is that of its siblings.
    pub fn text() -> Result<Self> {
        Self::from_source(TypeSource::Text { max_chars: None })
    }

    /// Unquoted text of at most `n` characters (Unicode code points).
    ///
    /// # Errors
    /// [`Error::Type`] if the bound is absurd.
    pub fn text_max(n: usize) -> Result<Self> {
        Self::from_source(TypeSource::Text { max_chars: Some(n) })
    }

    /// Unquoted text that matches a regular expression of ECMA-262 as a whole.
    ///
    /// # Errors
    /// [`Error::Type`] that points at the character.
    pub fn regex(pattern: &str) -> Result<Self> {
        Self::from_source(TypeSource::Regex(pattern.to_string()))
    }

    /// Unquoted text: one of the strings.
    ///
    /// # Errors
    /// [`Error::Type`] without a string to choose, or with too many.
    pub fn choice(options: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        Self::from_source(TypeSource::Choice(options.into_iter().map(Into::into).collect()))
    }

    /// A reply that is text or calls of tools. The value is a [`Reply`]: `{"text": ..., "calls": [{"name", "arguments"}]}`.
    /// Tools whose schema cannot be enforced are left out and named in [`Type::refused_tools`]. Without a
    /// [`ToolSyntax`] the model that generates decides.
    ///
    /// # Errors
    /// [`Error::Type`] if there is no tool left, or the one that has to be called is not among them.
    pub fn tools(tools: Tools) -> Result<Self> {
        Self::from_source(TypeSource::Tools(tools))
    }

    /// Tools that were left out, each with what cannot be enforced of its schema.
    pub fn refused_tools(&self) -> &[(String, Error)] {
        &self.0.refused
    }

    /// What it was made from.
    pub fn source(&self) -> &TypeSource {
        &self.0.source
    }

    /// Whether values are replies: text or calls of tools.
    pub fn is_reply(&self) -> bool {
        matches!(self.0.source, TypeSource::Tools(_))
    }

    /// Whether a text of the type may be cut anywhere: plain text, and a reply that calls nothing.
    pub(crate) fn may_be_cut(&self, text: &str) -> bool {
        match &self.0.checker {
            Checker::Reply(reader) => !reader.calls(text),
            _ => matches!(self.0.source, TypeSource::Text { .. }),
        }
    }

    /// Whether what is written is text rather than JSON: plain text, or a reply that may call tools.
    pub fn is_text(&self) -> bool {
        !matches!(self.0.source, TypeSource::Expr(_) | TypeSource::Schema(_))
    }

    /// Where the calls of a finished reply stand in its text; `None` if values are no replies.
    pub(crate) fn calls_in(&self, text: &str) -> Option<Vec<CallSpan>> {
        match &self.0.checker {
            Checker::Reply(reader) => Some(reader.spans(text)),
            _ => None,
        }
    }

    /// The names of tools that a reply may call, as it writes them; `None` if values are no replies.
    pub(crate) fn tool_names(&self) -> Option<Vec<Vec<u8>>> {
        match &self.0.checker {
            Checker::Reply(reader) => Some(reader.names()),
            _ => None,
        }
    }

    /// The JSON Schema that values satisfy (for text types: of the string).
    pub fn json_schema(&self) -> &Value {
        &self.0.schema
    }

    /// Unknown keywords and formats that were taken as annotations: JSON pointer and keyword.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// Whether the other is a clone of this one.
    pub(crate) fn is(&self, other: &Type) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The ways to finish a value.
    fn shortest(&self) -> Result<&Shortest> {
        let make = || match &self.0.generated {
            Generated::Json(lows, words) => Shortest::of(lows, words),
            Generated::Text(ast) => Shortest::of_text(ast),
        };
        if let Some(known) = self.0.shortest.get() {
            return known.as_ref().map_err(Error::clone);
        }
        let made = make();
        match made {
            // The next one who asks may wait longer.
            Err(e) if stop::is_stop(&e) => Err(e),
            made => self.0.shortest.get_or_init(|| made).as_ref().map_err(Error::clone),
        }
    }

    /// Whether some array of the type must not have equal items.
    fn has_unique(&self) -> bool {
        match &self.0.generated {
            Generated::Json(lows, _) => lower::has_unique(lows),
            Generated::Text(_) => false,
        }
    }

    /// Finds what the scalars of a value could have been.
    pub(crate) fn choices(&self) -> Result<Choices> {
        // Unbounded text has nothing to choose from, and needs no table of shortest ways either.
        let open = matches!(self.0.source, TypeSource::Text { .. });
        Ok(Choices(if open { None } else { Some(shortest::Place::new(self)?) }))
    }

    /// Parses and validates a finished text, independently of the matcher. A text type's value is a string.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] that names the place in the value and the rule it breaks; duplicate keys and
    /// nesting beyond 128 are refused too.
    pub fn check(&self, text: &str) -> Result<Value> {
        self.0.checker.check(text)
    }
}

/// See [`Type::choices`].
pub(crate) struct Choices(Option<shortest::Place>);

impl Choices {
    /// The texts of the scalar that begins after `text`, if they are at most `n`. Each text continues the last one.
    pub fn at(&mut self, text: &[u8], n: usize) -> Result<Option<Vec<Vec<u8>>>> {
        match &mut self.0 {
            Some(place) => place.choices_after(text, n),
            None => Ok(None),
        }
    }
}

struct Compiled {
    schema: Value,
    warnings: Vec<String>,
    emitted: Emitted,
    checker: Checker,
    generated: Generated,
}

impl Compiled {
    fn text(schema: Value, ast: RegexAst, checker: Checker) -> Result<Self> {
        let emitted = emit::emit_text(ast.clone())?;
        Ok(Compiled { schema, warnings: Vec::new(), emitted, checker, generated: Generated::Text(ast) })
    }
}

fn compile(schema: Value) -> Result<Compiled> {
    let graph = read::read(&schema)?;
    let checker = Checker::for_schema(&schema, &graph.follow)?;
    let words = lower::JSON_WORDS;
    let lowered = lower::lower(&graph, words)?;
    let emitted = emit::emit(&lowered.defs, words).map_err(|e| lowered.blamed(e, &schema))?;
    let (warnings, lows) = (lowered.warnings(graph.warnings), lowered.defs);
    Ok(Compiled { schema, warnings, emitted, checker, generated: Generated::Json(lows, words) })
}

fn choice(list: &[String]) -> Result<Compiled> {
    if list.is_empty() || list.len() > MAX_CHOICES {
        return Err(Error::ty(
            "choice",
            "choice",
            format!("there are 1 to {MAX_CHOICES} strings to choose from"),
        ));
    }
    if let Some(long) = list.iter().find(|s| s.len() > read::MAX_LITERAL) {
        let reason =
            format!("a string of {} bytes is too large; at most {} are taken", long.len(), read::MAX_LITERAL);
        return Err(Error::ty("choice", "choice", reason));
    }
    let mut distinct: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for option in list {
        if seen.insert(option.as_str()) {
            distinct.push(option.clone());
        }
    }
    let ast = RegexAst::Or(distinct.iter().map(|s| RegexAst::Literal(s.clone())).collect());
    let schema = json!({ "type": "string", "enum": distinct });
    Compiled::text(schema, ast, Checker::Choice(distinct))
}

/// A string as JSON text.
fn json_text(s: &str) -> String {
    Value::String(s.to_string()).to_string()
}
