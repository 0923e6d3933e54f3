//! The leaves of type expressions: `string < 64`, `'a' | 'b'`, `0 <= number <= 1`, `string[] <= 5`, ...

use serde_json::{json, Map, Number, Value};

/// Nesting of parentheses, and arrays of arrays.
const MAX_DEPTH: usize = 32;
/// Longest leaf, in characters.
const MAX_CHARS: usize = 20_000;

/// A parsed leaf.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub schema: Value,
}

/// What is wrong, at which character (from 1), and what stands there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeafError {
    pub character: usize,
    pub found: String,
    pub reason: String,
}

type Parsed<T> = Result<T, LeafError>;

pub(super) fn parse(text: &str) -> Parsed<Leaf> {
    let mut parser = Parser { chars: text.chars().collect(), at: 0, depth: 0 };
    if parser.chars.len() > MAX_CHARS {
        return parser.fail(0, format!("longer than {MAX_CHARS} characters"));
    }
    let schema = parser.union()?;
    parser.space();
    match parser.peek() {
        None => Ok(Leaf { schema }),
        Some('=') => parser.fail(parser.at, "defaults are not supported"),
        Some('?') => parser.fail(parser.at, "optional properties carry the ? on their key"),
        Some(_) => parser.fail(parser.at, "expected an operator or the end"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Comparator {
    /// The comparator with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Comparator::Less => Comparator::Greater,
            Comparator::LessOrEqual => Comparator::GreaterOrEqual,
            Comparator::Greater => Comparator::Less,
            Comparator::GreaterOrEqual => Comparator::LessOrEqual,
            Comparator::Equal => Comparator::Equal,
        }
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn fail<T>(&self, at: usize, reason: impl Into<String>) -> Parsed<T> {
        let found = match self.chars.get(at) {
            None => "end".to_string(),
            Some(c) if is_word(*c) => {
                self.chars[at..].iter().take_while(|c| is_word(**c) || **c == '.').take(40).collect()
            }
            Some(c) => c.to_string(),
        };
        Err(LeafError { character: at + 1, found, reason: reason.into() })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        let end = self.at + text.len();
        let found = self.chars.get(self.at..end).is_some_and(|s| s.iter().copied().eq(text.chars()));
        if found {
            self.at = end;
        }
        found
    }

    fn union(&mut self) -> Parsed<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(self.at, format!("nested deeper than {MAX_DEPTH}"));
        }
        let mut branches = vec![self.intersection()?];
        loop {
            self.space();
            if !self.eat("|") {
                break;
            }
            branches.push(self.intersection()?);
        }
        self.depth -= 1;
        Ok(any_of(branches))
    }

    fn intersection(&mut self) -> Parsed<Value> {
        let mut parts = vec![self.bounded()?];
        loop {
            self.space();
            if !self.eat("&") {
                break;
            }
            parts.push(self.bounded()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { json!({ "allOf": parts }) })
    }

    /// `1 <= string <= 10`, `number % 5 > 0`, or no bound at all.
    fn bounded(&mut self) -> Parsed<Value> {
        self.space();
        let left = self.left_bound()?;
        let mut schema = self.operand()?;
        self.divisor(&mut schema)?;
        if let Some((limit, comparator, at)) = left {
            self.bound(&mut schema, comparator.mirrored(), &limit, at)?;
        }
        self.space();
        let at = self.at;
        if let Some(comparator) = self.comparator()? {
            let limit = self.limit()?;
            self.bound(&mut schema, comparator, &limit, at)?;
            self.space();
            let again = self.at;
            if self.comparator()?.is_some() {
                return self.fail(again, "a second bound goes to the left: 1 <= string <= 10");
            }
        }
        Ok(schema)
    }

    /// `1 <=` in front of an operand; a number that nothing is compared with is a literal.
    fn left_bound(&mut self) -> Parsed<Option<(Number, Comparator, usize)>> {
        let start = self.at;
        if !self.peek().is_some_and(|c| c.is_ascii_digit() || c == '-') {
            return Ok(None);
        }
        let limit = self.limit()?;
        self.space();
        let at = self.at;
        match self.comparator()? {
            Some(c @ (Comparator::Less | Comparator::LessOrEqual)) => Ok(Some((limit, c, at))),
            Some(_) => self.fail(at, "a bound on the left is written with < or <="),
            None => {
                self.at = start;
                Ok(None)
            }
        }
    }

    fn comparator(&mut self) -> Parsed<Option<Comparator>> {
        Ok(Some(if self.eat("<=") {
            Comparator::LessOrEqual
        } else if self.eat("<") {
            Comparator::Less
        } else if self.eat(">=") {
            Comparator::GreaterOrEqual
        } else if self.eat(">") {
            Comparator::Greater
        } else if self.eat("==") {
            Comparator::Equal
        } else {
            return Ok(None);
        }))
    }

    fn limit(&mut self) -> Parsed<Number> {
        self.space();
        match self.number()? {
            Some(n) => Ok(n),
            None => self.fail(self.at, "expected a number"),
        }
    }

    /// A number in JSON's notation.
    fn number(&mut self) -> Parsed<Option<Number>> {
        let start = self.at;
        let mut end = start;
        while let Some(c) = self.chars.get(end) {
            let sign = matches!(c, '-' | '+') && (end == start || matches!(self.chars[end - 1], 'e' | 'E'));
            if !(c.is_ascii_digit() || sign || *c == '.' || (end > start && matches!(c, 'e' | 'E'))) {
                break;
            }
            end += 1;
        }
        if end == start {
            return Ok(None);
        }
        let text: String = self.chars[start..end].iter().collect();
        match serde_json::from_str::<Number>(&text) {
            Ok(n) if !super::exact::same(&text, &n) => self.fail(start, super::exact::rounded(&text, &n)),
            Ok(n) => {
                self.at = end;
                Ok(Some(n))
            }
            Err(_) => self.fail(start, format!("{text} is no number of JSON")),
        }
    }

    fn divisor(&mut self, schema: &mut Value) -> Parsed<()> {
        self.space();
        let at = self.at;
        if !self.eat("%") {
            return Ok(());
        }
        let step = self.limit()?;
        match schema.as_object_mut().filter(|m| kind(m) == Some("number")) {
            Some(_) if step.as_f64().is_none_or(|s| s <= 0.0) => {
                self.fail(at, "a divisor is greater than zero")
            }
            Some(map) => {
                map.insert("multipleOf".into(), Value::Number(step));
                Ok(())
            }
            None => self.fail(at, "only numbers have a divisor"),
        }
    }

    fn bound(&self, schema: &mut Value, c: Comparator, limit: &Number, at: usize) -> Parsed<()> {
        let Some(map) = schema.as_object_mut() else { return self.fail(at, BOUNDED_KINDS) };
        let (least, most) = match kind(map) {
            Some("number") => return self.number_bound(map, c, limit, at),
            Some("string") => ("minLength", "maxLength"),
            Some("array") => ("minItems", "maxItems"),
            _ => return self.fail(at, BOUNDED_KINDS),
        };
        let Some(n) = limit.as_u64() else { return self.fail(at, "a length is a non-negative integer") };
        let (min, max) = match c {
            Comparator::Less if n == 0 => return self.fail(at, "no length is below zero"),
            Comparator::Less => (None, Some(n - 1)),
            Comparator::LessOrEqual => (None, Some(n)),
            Comparator::Greater => (n.checked_add(1), None),
            Comparator::GreaterOrEqual => (Some(n), None),
            Comparator::Equal => (Some(n), Some(n)),
        };
        for (key, value) in [(least, min), (most, max)] {
            if let Some(value) = value {
                if map.insert(key.into(), value.into()).is_some() {
                    return self.fail(at, "the same side is bounded twice");
                }
            }
        }
        let get = |key: &str| map.get(key).and_then(Value::as_u64);
        if get(least).zip(get(most)).is_some_and(|(a, b)| a > b) {
            return self.fail(at, "the bounds exclude every length");
        }
        Ok(())
    }

    fn number_bound(
        &self,
        map: &mut Map<String, Value>,
        c: Comparator,
        limit: &Number,
        at: usize,
    ) -> Parsed<()> {
        let keys: &[&str] = match c {
            Comparator::Less => &["exclusiveMaximum"],
            Comparator::LessOrEqual => &["maximum"],
            Comparator::Greater => &["exclusiveMinimum"],
            Comparator::GreaterOrEqual => &["minimum"],
            Comparator::Equal => &["minimum", "maximum"],
        };
        for key in keys {
            if map.insert((*key).into(), Value::Number(limit.clone())).is_some() {
                return self.fail(at, "the same side is bounded twice");
            }
        }
        let get = |keys: [&str; 2]| keys.iter().find_map(|k| map.get(*k)).and_then(Value::as_f64);
        let (min, max) = (get(["minimum", "exclusiveMinimum"]), get(["maximum", "exclusiveMaximum"]));
        let strict = map.contains_key("exclusiveMinimum") || map.contains_key("exclusiveMaximum");
        if min.zip(max).is_some_and(|(a, b)| a > b || (a == b && strict)) {
            return self.fail(at, "the bounds exclude every number");
        }
        Ok(())
    }

    /// A primary with any number of `[]`.
    fn operand(&mut self) -> Parsed<Value> {
        let mut schema = self.primary()?;
        let mut arrays = 0;
        loop {
            self.space();
            if !self.eat("[") {
                return Ok(schema);
            }
            self.space();
            if !self.eat("]") {
                return self.fail(self.at, "an array is written []");
            }
            arrays += 1;
            if arrays > MAX_DEPTH {
                return self.fail(self.at, format!("nested deeper than {MAX_DEPTH}"));
            }
            schema = json!({ "type": "array", "items": schema });
        }
    }

    fn primary(&mut self) -> Parsed<Value> {
        self.space();
        let start = self.at;
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.union()?;
                self.space();
                if !self.eat(")") {
                    return self.fail(self.at, "expected )");
                }
                Ok(inner)
            }
            Some(quote @ ('\'' | '"')) => Ok(json!({ "const": self.quoted(quote)? })),
            Some('/') => self.regex(),
            Some(c) if c.is_ascii_digit() || c == '-' => match self.number()? {
                Some(n) => Ok(json!({ "const": n })),
                None => self.fail(start, "expected a type"),
            },
            Some(c) if is_word(c) => self.keyword(),
            _ => self.fail(start, "expected a type"),
        }
    }

    fn quoted(&mut self, quote: char) -> Parsed<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\\' if self.peek().is_some_and(|n| n == quote || n == '\\') => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                c if c == quote => return Ok(text),
                c => text.push(c),
            }
        }
        self.fail(start, "the string is not closed")
    }

    fn regex(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.at += 1;
        let mut source = String::new();
        let mut in_class = false;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '/' if !in_class => {
                    if self.peek().is_some_and(is_word) {
                        return self.fail(self.at, "flags of regular expressions are not supported");
                    }
                    return match super::pattern::Pattern::search(&source) {
                        Ok(_) => Ok(json!({ "type": "string", "pattern": source })),
                        Err(e) => self.fail(start + 1 + e.at, e.reason),
                    };
                }
                '\\' => {
                    source.push(c);
                    source.extend(self.peek());
                    self.at += 1;
                }
                c => {
                    in_class = (in_class || c == '[') && c != ']';
                    source.push(c);
                }
            }
        }
        self.fail(start, "the regular expression is not closed")
    }

    fn keyword(&mut self) -> Parsed<Value> {
        let start = self.at;
        while self.peek().is_some_and(|c| is_word(c) || c == '.') {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match keyword(&word) {
            Ok(schema) => Ok(schema),
            Err(reason) => self.fail(start, reason),
        }
    }
}

const BOUNDED_KINDS: &str = "only numbers, strings (by length) and arrays (by items) have bounds";

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// What a bound on this schema would bound.
fn kind(map: &Map<String, Value>) -> Option<&'static str> {
    match map.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => Some("number"),
        Some("string") => Some("string"),
        Some("array") => Some("array"),
        _ => None,
    }
}

/// A union; one of literals is an `enum`.
fn any_of(mut branches: Vec<Value>) -> Value {
    if branches.len() == 1 {
        return branches.remove(0);
    }
    let literals: Option<Vec<&Value>> = branches
        .iter()
        .map(|b| b.as_object().filter(|m| m.len() == 1).and_then(|m| m.get("const")))
        .collect();
    match literals {
        Some(values) => {
            let mut distinct: Vec<&Value> = Vec::new();
            for value in values {
                if !distinct.contains(&value) {
                    distinct.push(value);
                }
            }
            json!({ "enum": distinct })
        }
        None => json!({ "anyOf": branches }),
    }
}

/// The schema of a keyword, or why there is none.
fn keyword(word: &str) -> Result<Value, String> {
    let pattern = |p: &str| json!({ "type": "string", "pattern": p });
    let format = |f: &str| json!({ "type": "string", "format": f });
    let formats = |list: &[&str]| json!({ "anyOf": list.iter().map(|f| format(f)).collect::<Vec<_>>() });
    Ok(match word {
        "string" | "number" | "boolean" | "null" | "integer" | "object" => json!({ "type": word }),
        "true" => json!({ "const": true }),
        "false" => json!({ "const": false }),
        "unknown" | "any" => json!({}),
        "number.integer" => json!({ "type": "integer" }),
        "number.safe" => {
            json!({ "type": "number", "minimum": -9007199254740991i64, "maximum": 9007199254740991i64 })
        }
        "string.email" => format("email"),
        "string.url" => format("uri"),
        "string.uuid" => format("uuid"),
        "string.date.iso" => formats(&["date", "date-time"]),
        "string.ip" => formats(&["ipv4", "ipv6"]),
        "string.ip.v4" => format("ipv4"),
        "string.ip.v6" => format("ipv6"),
        "string.alpha" => pattern("^[A-Za-z]*$"),
        "string.alphanumeric" => pattern("^[0-9A-Za-z]*$"),
        "string.digits" => pattern("^[0-9]*$"),
        "string.hex" => pattern("^[0-9A-Fa-f]+$"),
        "string.lower" => pattern("^[a-z]*$"),
        "string.upper" => pattern("^[A-Z]*$"),
        "string.integer" => pattern("^(0|-?[1-9][0-9]*)$"),
        "string.numeric" => pattern("^-?(0|[1-9][0-9]*)(\\.[0-9]*[1-9])?$"),
        "undefined" | "bigint" | "symbol" | "Date" | "never" | "Function" | "void" => {
            return Err(format!("{word} has no values in JSON"));
        }
        _ => {
            match word.split_once('.') {
                Some(("string", v))
                    if v.strip_prefix("uuid.v")
                        .is_some_and(|n| ["1", "2", "3", "4", "5", "6", "7", "8"].contains(&n)) =>
                {
                    let version = &v[6..];
                    pattern(&format!("^[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}$"))
                }
                _ => return Err("there is no such type".to_string()),
            }
        }
    })
}
