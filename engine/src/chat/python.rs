//! What chat templates expect of the Python around them.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// The message of a template's own `raise_exception`, kept apart from errors of the template engine.
#[derive(Debug)]
pub(super) struct Raised(pub(super) String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// `raise_exception(message)`.
pub(super) fn raise_exception(message: Value) -> Result<Value, Error> {
    let message = message.as_str().unwrap_or("the template raised an exception").to_owned();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// A float as Python's `repr` writes it: shortest digits, an exponent from 1e16 up and below 1e-4.
pub(super) fn float_repr(f: f64) -> String {
    if !f.is_finite() {
        return if f.is_nan() {
            "nan"
        } else if f > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let magnitude = f.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        // Rust writes 1e-5 and 1e16 where Python writes 1e-05 and 1e+16.
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{f:?}")
}

/// Deeper values are refused: writing them recurses.
const MAX_DEPTH: usize = 250;

/// Writes values as Python's `repr` does, paying for each.
pub(super) struct Repr<'w, 't, 'e> {
    pub(super) state: &'w State<'t, 'e>,
    pub(super) out: &'w mut dyn Write,
}

impl Repr<'_, '_, '_> {
    pub(super) fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        if depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "the value is nested too deeply to be printed",
            ));
        }
        match value.kind() {
            ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
                Ok(float) => self.out.write_str(&float_repr(float))?,
                Err(_) => write!(self.out, "{value:?}")?,
            },
            ValueKind::Seq => match value.is_tuple() {
                true => {
                    let close = if value.len() == Some(1) { ",)" } else { ")" };
                    self.items(value, "(", close, depth)?;
                }
                false => self.items(value, "[", "]", depth)?,
            },
            // A view of unknown length is not walked only to be shown.
            ValueKind::Iterable if value.len().is_some() => self.items(value, "[", "]", depth)?,
            ValueKind::Map => {
                self.out.write_str("{")?;
                for (i, key) in value.try_iter()?.enumerate() {
                    self.out.write_str(if i > 0 { ", " } else { "" })?;
                    self.value(&key, depth + 1)?;
                    self.out.write_str(": ")?;
                    self.value(&value.get_item(&key)?, depth + 1)?;
                }
                self.out.write_str("}")?;
            }
            _ => write!(self.out, "{value:?}")?,
        }
        Ok(())
    }

    fn items(&mut self, value: &Value, open: &str, close: &str, depth: usize) -> Result<(), Error> {
        self.out.write_str(open)?;
        for (i, item) in value.try_iter()?.enumerate() {
            self.out.write_str(if i > 0 { ", " } else { "" })?;
            self.value(&item, depth + 1)?;
        }
        self.out.write_str(close)?;
        Ok(())
    }
}

/// Methods of str, dict and list: those of `minijinja-contrib`, and the ones it lacks or does not pay for.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.kind(), name) {
        (ValueKind::String, "join") => return join(state, value.as_str().unwrap_or_default(), args),
        (ValueKind::Seq | ValueKind::Iterable, "count" | "index") => return search(state, value, name, args),
        _ => {}
    }
    match minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args) {
        Err(e) if e.kind() == ErrorKind::UnknownMethod && value.kind() == ValueKind::String => {
            string_method(value.as_str().unwrap_or_default(), name, args)
        }
        result => result,
    }
}

fn join(state: &State, separator: &str, args: &[Value]) -> Result<Value, Error> {
    let (items,): (Value,) = from_args(args)?;
    let mut joined = String::new();
    for (i, item) in items.try_iter()?.enumerate() {
        let item = item.as_str().ok_or_else(|| {
            let reason = format!("sequence item {i}: expected str instance, {} found", item.kind());
            Error::new(ErrorKind::InvalidOperation, reason)
        })?;
        state.consume_fuel(1 + (separator.len() + item.len()) as u64 / 64)?;
        joined.push_str(if i > 0 { separator } else { "" });
        joined.push_str(item);
    }
    Ok(Value::from(joined))
}

/// `list.count` and `list.index`.
fn search(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (Value,) = from_args(args)?;
    let mut count = 0;
    for (i, item) in value.try_iter()?.enumerate() {
        state.consume_fuel(1)?;
        if item == wanted {
            count += 1;
            if name == "index" {
                return Ok(Value::from(i));
            }
        }
    }
    match name {
        "count" => Ok(Value::from(count)),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "value is not in list")),
    }
}

fn string_method(s: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let triple = |a: &str, b: &str, c: &str| {
        Value::from(Tuple::from([Value::from(a), Value::from(b), Value::from(c)]))
    };
    Ok(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(prefix).unwrap_or(s))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(suffix).unwrap_or(s))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            match name {
                "partition" => {
                    s.split_once(separator).map_or(triple(s, "", ""), |(a, b)| triple(a, separator, b))
                }
                _ => s.rsplit_once(separator).map_or(triple("", "", s), |(a, b)| triple(a, separator, b)),
            }
        }
        "rsplit" => rsplit(s, args)?,
        "index" => {
            let (wanted,): (&str,) = from_args(args)?;
            let at = s
                .find(wanted)
                .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Value::from(s[..at].chars().count())
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}

fn rsplit(s: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = most.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) => s.rsplitn(most.saturating_add(1), separator).collect(),
        None => {
            let (mut parts, mut rest) = (Vec::new(), s.trim_end());
            while !rest.is_empty() {
                match rest.rfind(char::is_whitespace).filter(|_| parts.len() < most) {
                    Some(space) => {
                        let word = rest[space..].trim_start();
                        parts.push(word);
                        rest = rest[..space].trim_end();
                    }
                    None => {
                        parts.push(if parts.len() < most { rest.trim_start() } else { rest });
                        break;
                    }
                }
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

/// `value | string`.
pub(super) fn string(state: &State, value: Value) -> Result<Value, Error> {
    if value.as_str().is_some() || value.is_undefined() {
        return Ok(if value.is_undefined() { Value::from("") } else { value });
    }
    let mut text = String::new();
    Repr { state, out: &mut text }.value(&value, 0)?;
    Ok(Value::from(text))
}

/// `value | int(default=0)`: what cannot be read is the default.
pub(super) fn int(value: Value, default: Option<Value>) -> Value {
    let read = match value.as_str() {
        Some(s) => {
            let s = s.trim();
            let float = || {
                s.parse::<f64>()
                    .ok()
                    .filter(|f| f.is_finite() && f.abs() < 1e18)
                    .map(|f| Value::from(f as i64))
            };
            s.parse::<i64>().ok().map(Value::from).or_else(float)
        }
        None if value.kind() == ValueKind::Bool => Some(Value::from(i64::from(value.is_true()))),
        None if value.is_integer() => Some(value),
        None => f64::try_from(value).ok().filter(|f| f.is_finite()).map(|f| Value::from(f.trunc() as i128)),
    };
    read.or(default).unwrap_or_else(|| Value::from(0))
}

/// `value | float(default=0.0)`: what cannot be read is the default.
pub(super) fn float(value: Value, default: Option<Value>) -> Value {
    let read = match value.as_str() {
        Some(s) => s.trim().parse::<f64>().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value).ok(),
    };
    read.map(Value::from).or(default).unwrap_or_else(|| Value::from(0.0))
}

/// `text | wordcount`.
pub(super) fn wordcount(text: String) -> usize {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}

/// `value is iterable`: unlike here, `None` is not in Python, and what is undefined is.
pub(super) fn is_iterable(value: Value) -> bool {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => false,
        ValueKind::Undefined => true,
        _ => value.try_iter().is_ok(),
    }
}

/// What a loop goes over: in Python `None` is not iterable, elsewhere it is empty.
pub(super) fn each(value: Value) -> Result<Value, Error> {
    match value.is_none() {
        true => Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable")),
        false => Ok(value),
    }
}

/// `strftime_now(format)`: the current time, in UTC. Directives that are not known stay as they are.
pub(super) fn strftime_now(format: String) -> String {
    let now = web_time::SystemTime::now().duration_since(web_time::UNIX_EPOCH);
    strftime(&format, now.map_or(0, |d| d.as_secs()))
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Seconds since 1970 as C's `strftime` writes them.
fn strftime(format: &str, seconds: u64) -> String {
    let (days, of_day) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let hour12 = (hour + 11) % 12 + 1;
    let month_name = MONTHS[month as usize - 1];
    let weekday = ((days + 4) % 7) as usize;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next();
        let padded = directive != Some('-');
        if !padded {
            directive = chars.next();
        }
        let mut number = |n: u64, width: usize| {
            let _ = write!(out, "{n:0width$}", width = if padded { width } else { 0 });
        };
        match directive {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number(hour12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(days - first_of_year(year) + 1, 3),
            Some('w') => number(weekday as u64, 1),
            Some('f') => number(0, 6),
            Some('B') => out.push_str(month_name),
            Some('b' | 'h') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(DAYS[weekday]),
            Some('a') => out.push_str(&DAYS[weekday][..3]),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('e') => {
                let _ = write!(out, "{day:2}");
            }
            Some('F') => out.push_str(&strftime("%Y-%m-%d", seconds)),
            Some('T') => out.push_str(&strftime("%H:%M:%S", seconds)),
            Some('D') => out.push_str(&strftime("%m/%d/%y", seconds)),
            Some('R') => out.push_str(&strftime("%H:%M", seconds)),
            Some('z') => out.push_str("+0000"),
            Some('Z') => out.push_str("UTC"),
            Some('%') => out.push('%'),
            other => {
                out.push('%');
                out.extend((!padded).then_some('-'));
                out.extend(other);
            }
        }
    }
    out
}

fn first_of_year(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

/// Days since 1970 to year, month (1..), day (1..): Howard Hinnant's `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (f, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_repr(f), text);
        }
    }

    #[test]
    fn dates_equal_those_of_c() {
        for (seconds, text) in [
            (0, "Thu Thursday 01 1 Jan January 1970-01-01 001 00 12 AM 00:00:00"),
            (951_827_696, "Tue Tuesday 29 29 Feb February 2000-02-29 060 12 12 PM 12:34:56"),
            (1_735_689_599, "Tue Tuesday 31 31 Dec December 2024-12-31 366 23 11 PM 23:59:59"),
        ] {
            assert_eq!(strftime("%a %A %d %-d %b %B %F %j %H %I %p %T", seconds), text);
        }
        assert_eq!(strftime("100%% %Q %-Q %", 0), "100% %Q %-Q %");
    }
}
