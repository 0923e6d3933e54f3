//! The key-value section: parsing, and typed access with errors that name the key.

use super::cursor::{shown, Cursor};
use crate::error::{Error, Result};
use indexmap::map::Entry;
use indexmap::IndexMap;
use std::borrow::Cow;
use std::ops::Range;

/// Pairs in a file; real ones have fewer than a hundred.
const MAX_PAIRS: u64 = 1 << 16;
/// The format's own limit on keys.
const MAX_KEY_BYTES: u64 = 65_535;
/// Elements of an array; the largest real ones (merges) have half a million. It bounds what the wider types
/// in memory can make of a huge file.
const MAX_ARRAY_ITEMS: u64 = 1 << 24;
/// Arrays of arrays; real files have none.
const MAX_ARRAY_DEPTH: usize = 4;
/// Key length, type number and one byte of value.
const MIN_PAIR_BYTES: u64 = 8 + 4 + 1;

/// A metadata value. Arrays are homogeneous; long ones of strings or numbers keep their own variant.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Uint(u64),
    Int(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Strings(Vec<String>),
    Uints(Vec<u64>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
    /// Nested arrays, bounded in depth.
    Arrays(Vec<Value>),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Uint(_) => "an unsigned integer",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Bool(_) => "a boolean",
            Value::String(_) => "a string",
            Value::Strings(_) => "an array of strings",
            Value::Uints(_) => "an array of unsigned integers",
            Value::Ints(_) => "an array of integers",
            Value::Floats(_) => "an array of numbers",
            Value::Bools(_) => "an array of booleans",
            Value::Arrays(_) => "an array of arrays",
        }
    }

    fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Uint(n) => Some(n),
            Value::Int(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }

    fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::Float(x) => Some(x as f32),
            Value::Uint(n) => Some(n as f32),
            Value::Int(n) => Some(n as f32),
            _ => None,
        }
    }

    /// The integers of an array; an array of booleans counts as 0 and 1.
    fn as_ints(&self) -> Option<Cow<'_, [i64]>> {
        match self {
            Value::Ints(v) => Some(Cow::Borrowed(v)),
            Value::Uints(v) => {
                v.iter().map(|&n| i64::try_from(n).ok()).collect::<Option<_>>().map(Cow::Owned)
            }
            Value::Bools(v) => Some(Cow::Owned(v.iter().map(|&b| b.into()).collect())),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident,)*) => {$(
        impl From<$ty> for Value {
            fn from(x: $ty) -> Self {
                Value::$variant(x.into())
            }
        }
    )*};
}

from! {
    u32 => Uint,
    u64 => Uint,
    i32 => Int,
    f32 => Float,
    f64 => Float,
    bool => Bool,
    &str => String,
    String => String,
    Vec<String> => Strings,
    Vec<i64> => Ints,
    Vec<f32> => Floats,
}

/// The key-value section, in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// All pairs.
    pub pairs: IndexMap<String, Value>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $get:ident / $opt:ident -> $ty:ty, $expected:literal, $read:expr;)*) => {$(
        $(#[$doc])*
        /// # Errors
        /// [`Error::BadModel`] when the key is missing or has another type.
        pub fn $get(&self, key: &str) -> Result<$ty> {
            self.$opt(key)?.ok_or_else(|| missing(key, $expected))
        }

        $(#[$doc])*
        /// `None` when the key is missing.
        /// # Errors
        /// [`Error::BadModel`] when the key has another type.
        pub fn $opt(&self, key: &str) -> Result<Option<$ty>> {
            self.typed(key, $expected, $read)
        }
    )*};
}

impl Metadata {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.get(key)
    }

    getters! {
        /// A string.
        str / opt_str -> &str, "a string", |v| match v { Value::String(s) => Some(s.as_str()), _ => None };
        /// An integer of either sign's type that fits in 32 unsigned bits.
        u32 / opt_u32 -> u32, "an integer from 0 to 4294967295", |v| v.as_u64().and_then(|n| n.try_into().ok());
        /// A number; integers are converted.
        f32 / opt_f32 -> f32, "a number", Value::as_f32;
        /// A boolean.
        bool / opt_bool -> bool, "a boolean", |v| match v { Value::Bool(b) => Some(*b), _ => None };
        /// An array of strings.
        strings / opt_strings -> &[String], "an array of strings",
            |v| match v { Value::Strings(s) => Some(s.as_slice()), _ => None };
        /// An array of integers of any width; booleans count as 0 and 1.
        ints / opt_ints -> Cow<'_, [i64]>, "an array of integers", Value::as_ints;
        /// An array of float32 or float64 numbers.
        floats / opt_floats -> &[f32], "an array of numbers",
            |v| match v { Value::Floats(x) => Some(x.as_slice()), _ => None };
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.pairs.get(key) else { return Ok(None) };
        match read(value) {
            Some(v) => Ok(Some(v)),
            None => {
                let found = match value {
                    Value::Uint(n) => n.to_string(),
                    Value::Int(n) => n.to_string(),
                    other => other.kind().into(),
                };
                Err(Error::bad_model(
                    format_args!("metadata {key}"),
                    format_args!("expected {expected}, found {found}"),
                ))
            }
        }
    }
}

fn missing(key: &str, expected: &str) -> Error {
    Error::bad_model(format_args!("metadata {key}"), format_args!("missing; expected {expected}"))
}

/// GGUF's value types, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// Every type, in the order of their numbers.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The fewest bytes that one value takes in the file.
    fn min_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::String | ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::Array => 4 + 8,
        }
    }

    fn read(c: &mut Cursor<'_>, what: &str) -> Result<ValueType> {
        let error = |n: u32, c: &Cursor<'_>| c.bad(what, format_args!("{n} is not a value type (0 to 12)"));
        let n = c.u32(what)?;
        ValueType::ALL.get(n as usize).copied().ok_or_else(|| error(n, c))
    }
}

/// Reads the section of `count` pairs; also where the type and value of each lie.
pub(super) fn read(c: &mut Cursor<'_>, count: u64) -> Result<(Metadata, Vec<Range<u64>>)> {
    check_count(c, count, MIN_PAIR_BYTES, MAX_PAIRS, "metadata count")?;
    let mut pairs = IndexMap::new();
    let mut ranges = Vec::new();
    for i in 0..count {
        let at = c.pos();
        let key = c.string(MAX_KEY_BYTES, &format!("key of metadata pair {i}"))?;
        let what = format!("metadata {}", shown(&key));
        let start = c.pos();
        let kind = ValueType::read(c, &what)?;
        let value = read_value(c, kind, 0, &what)?;
        match pairs.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(value);
                ranges.push(start..c.pos());
            }
            Entry::Occupied(_) => return Err(super::cursor::bad_at(&what, at, "the key occurs twice")),
        }
    }
    Ok((Metadata { pairs }, ranges))
}

/// A count that was read before what it counts begins.
pub(super) fn check_count(c: &Cursor<'_>, n: u64, item_bytes: u64, limit: u64, what: &str) -> Result<()> {
    let most = (c.remaining() / item_bytes).min(limit);
    if n > most {
        return Err(Error::bad_model(what, format_args!("{n} entries; at most {most} can be in this file")));
    }
    Ok(())
}

fn read_value(c: &mut Cursor<'_>, kind: ValueType, depth: usize, what: &str) -> Result<Value> {
    Ok(match kind {
        ValueType::U8 | ValueType::U16 | ValueType::U32 | ValueType::U64 => {
            Value::Uint(read_uint(c, kind, what)?)
        }
        ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64 => {
            Value::Int(read_int(c, kind, what)?)
        }
        ValueType::F32 | ValueType::F64 => Value::Float(read_float(c, kind, what)?),
        ValueType::Bool => Value::Bool(read_bool(c, what)?),
        ValueType::String => Value::String(c.string(u64::MAX, what)?),
        ValueType::Array => read_array(c, depth, what)?,
    })
}

fn read_array(c: &mut Cursor<'_>, depth: usize, what: &str) -> Result<Value> {
    if depth == MAX_ARRAY_DEPTH {
        return Err(c.bad(what, format_args!("arrays are nested deeper than {MAX_ARRAY_DEPTH}")));
    }
    let kind = ValueType::read(c, what)?;
    let n = c.count(kind.min_bytes(), MAX_ARRAY_ITEMS, what)?;
    Ok(match kind {
        ValueType::U8 | ValueType::U16 | ValueType::U32 | ValueType::U64 => {
            Value::Uints(items(n, what, || read_uint(c, kind, what))?)
        }
        ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64 => {
            Value::Ints(items(n, what, || read_int(c, kind, what))?)
        }
        ValueType::F32 | ValueType::F64 => {
            Value::Floats(items(n, what, || Ok(read_float(c, kind, what)? as f32))?)
        }
        ValueType::Bool => Value::Bools(items(n, what, || read_bool(c, what))?),
        ValueType::String => Value::Strings(items(n, what, || c.string(u64::MAX, what))?),
        ValueType::Array => Value::Arrays(items(n, what, || read_array(c, depth + 1, what))?),
    })
}

/// `n` items; `n` has been checked against the bytes left.
fn items<T>(n: usize, what: &str, mut read: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut out = Vec::new();
    out.try_reserve_exact(n).map_err(|_| Error::OutOfMemory {
        wanted: (n as u64).saturating_mul(std::mem::size_of::<T>() as u64),
        what: what.into(),
    })?;
    for _ in 0..n {
        out.push(read()?);
    }
    Ok(out)
}

fn read_uint(c: &mut Cursor<'_>, kind: ValueType, what: &str) -> Result<u64> {
    Ok(match kind {
        ValueType::U8 => u8::from_le_bytes(c.array(what)?).into(),
        ValueType::U16 => u16::from_le_bytes(c.array(what)?).into(),
        ValueType::U32 => c.u32(what)?.into(),
        _ => c.u64(what)?,
    })
}

fn read_int(c: &mut Cursor<'_>, kind: ValueType, what: &str) -> Result<i64> {
    Ok(match kind {
        ValueType::I8 => i8::from_le_bytes(c.array(what)?).into(),
        ValueType::I16 => i16::from_le_bytes(c.array(what)?).into(),
        ValueType::I32 => i32::from_le_bytes(c.array(what)?).into(),
        _ => i64::from_le_bytes(c.array(what)?),
    })
}

fn read_float(c: &mut Cursor<'_>, kind: ValueType, what: &str) -> Result<f64> {
    Ok(match kind {
        ValueType::F32 => f32::from_le_bytes(c.array(what)?).into(),
        _ => f64::from_le_bytes(c.array(what)?),
    })
}

fn read_bool(c: &mut Cursor<'_>, what: &str) -> Result<bool> {
    match c.array::<1>(what)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [n] => Err(c.bad(what, format_args!("{n} is not a boolean (0 or 1)"))),
    }
}
