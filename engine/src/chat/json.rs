//! `tojson` as transformers defines it: Python's `json.dumps` over template values.

use super::python::float_repr;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// Deeper values are refused: writing them recurses.
const MAX_DEPTH: usize = 128;

/// The arguments of `json.dumps` that templates use.
struct Style {
    ensure_ascii: bool,
    /// What one level of indentation is; `None` writes a single line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The filter: `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State,
    value: Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let ensure_ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.or(ensure_ascii).unwrap_or(false);
    let indent = kwargs.get::<Option<Value>>("indent")?.or(indent).filter(|v| !v.is_none());
    let indent = match indent {
        None => None,
        Some(v) => Some(match v.as_str() {
            Some(s) => s.to_owned(),
            // More than this only makes output longer.
            None => " ".repeat(usize::try_from(i64::try_from(v)?.clamp(0, 32)).unwrap_or(0)),
        }),
    };
    let separators = match kwargs.get::<Option<Vec<String>>>("separators")? {
        None => None,
        Some(pair) => Some(
            <[String; 2]>::try_from(pair)
                .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson: separators are two strings"))?,
        ),
    };
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let [item_separator, key_separator] =
        separators.unwrap_or_else(|| [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()]);
    let style = Style { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    let mut out = Writer { state, style, out: String::new(), charged: 0 };
    out.value(&value, 0)?;
    Ok(Value::from_safe_string(out.out))
}

struct Writer<'s, 't, 'e> {
    state: &'s State<'t, 'e>,
    style: Style,
    out: String,
    charged: usize,
}

impl Writer<'_, '_, '_> {
    /// Pays for what was written since the last time, so that shared values cannot blow up unnoticed.
    fn charge(&mut self) -> Result<(), Error> {
        let units = (self.out.len() - self.charged) / 16;
        if units > 0 {
            self.charged = self.out.len();
            self.state.consume_fuel(units as u64)?;
        }
        Ok(())
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: the value is nested too deeply"));
        }
        self.charge()?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value)?,
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: a value of type {kind} is not JSON serializable"),
                ))
            }
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) -> Result<(), Error> {
        if value.is_integer() {
            let _ = write!(self.out, "{value}");
        } else {
            let float = f64::try_from(value.clone())?;
            self.out.push_str(&match float {
                f if f.is_nan() => "NaN".to_owned(),
                f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
                f => float_repr(f),
            });
        }
        Ok(())
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut any = false;
        for item in value.try_iter()? {
            if any {
                self.out.push_str(&self.style.item_separator);
            }
            any = true;
            self.newline(depth + 1);
            self.value(&item, depth + 1)?;
        }
        if any {
            self.newline(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.style.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (i, key) in keys.iter().enumerate() {
            if i > 0 {
                self.out.push_str(&self.style.item_separator);
            }
            self.newline(depth + 1);
            self.key(key)?;
            self.out.push_str(&self.style.key_separator);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        if !keys.is_empty() {
            self.newline(depth);
        }
        self.out.push('}');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.string(key.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                self.out.push('"');
                self.value(key, MAX_DEPTH)?;
                self.out.push('"');
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: keys must be str, int, float, bool or None, not {kind}"),
                ))
            }
        }
        Ok(())
    }

    fn string(&mut self, s: &str) {
        self.out.push('"');
        for c in s.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.style.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
