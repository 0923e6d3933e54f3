//! The postcard subset of message heads: bool, u32, u64, i64, f32, f64, string, bytes, option and flat sequences.
//!
//! Written by hand (see the crate's specification): strict, so that one message has one encoding, and total, so
//! that any bytes give a value or a reason. Nothing is allocated beyond what the input itself holds.

use serde_json::{json, Value};

/// Collects the bytes of a head.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty head.
    pub fn new() -> Self {
        Self::default()
    }
    /// The bytes so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// Appends a base-128 varint, least significant group first.
    pub fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.bytes.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.bytes.push(v as u8);
    }
    fn raw(&mut self, b: &[u8]) {
        self.bytes.extend_from_slice(b);
    }
}

/// Walks over the bytes of a head.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Reader<'a> {
    /// At the beginning of a head.
    pub fn new(head: &'a [u8]) -> Self {
        Self { rest: head, at: 0 }
    }
    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8]> {
        if n > self.rest.len() {
            return Err(format!("the head ends inside {what} at byte {}", self.at));
        }
        let (a, b) = self.rest.split_at(n);
        self.rest = b;
        self.at += n;
        Ok(a)
    }
    /// A varint of at most `bits` bits; overlong encodings are refused.
    pub fn varint(&mut self, bits: u32) -> Result<u64> {
        let (mut v, mut shift) = (0u64, 0u32);
        loop {
            let b = self.take(1, "a number")?[0];
            let group = (b & 0x7f) as u64;
            if shift >= bits || (shift + 7 > bits && group >> (bits - shift) != 0) {
                return Err(format!("a number of more than {bits} bits at byte {}", self.at));
            }
            v |= group << shift;
            if b & 0x80 == 0 {
                if b == 0 && shift > 0 {
                    return Err(format!("an overlong number at byte {}", self.at));
                }
                return Ok(v);
            }
            shift += 7;
        }
    }
    fn bytes(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.varint(64)?;
        let len = usize::try_from(len).map_err(|_| format!("{what} of {len} bytes"))?;
        self.take(len, what)
    }
}

/// A value that a field of a message can have.
pub trait Field: Sized + Default {
    /// Appends it.
    fn put(&self, w: &mut Writer);
    /// Reads it.
    fn get(r: &mut Reader<'_>) -> Result<Self>;
    /// As the readable twins of the vectors show it.
    fn to_json(&self) -> Value;
    /// The name of its type in the specification.
    fn type_name() -> String;
}

impl Field for bool {
    fn put(&self, w: &mut Writer) {
        w.raw(&[*self as u8]);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        match r.take(1, "a bool")?[0] {
            0 => Ok(false),
            1 => Ok(true),
            b => Err(format!("a bool of {b} at byte {}", r.at)),
        }
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
    fn type_name() -> String {
        "bool".into()
    }
}

impl Field for u32 {
    fn put(&self, w: &mut Writer) {
        w.varint(*self as u64);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        Ok(r.varint(32)? as u32)
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
    fn type_name() -> String {
        "u32".into()
    }
}

/// Integers beyond 2^53 are strings in the twins, since most JSON readers would round them.
fn big(v: i128) -> Value {
    if v.unsigned_abs() < 1 << 53 {
        json!(v as i64)
    } else {
        json!(v.to_string())
    }
}

impl Field for u64 {
    fn put(&self, w: &mut Writer) {
        w.varint(*self);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        r.varint(64)
    }
    fn to_json(&self) -> Value {
        big(*self as i128)
    }
    fn type_name() -> String {
        "u64".into()
    }
}

impl Field for i64 {
    fn put(&self, w: &mut Writer) {
        w.varint(((*self << 1) ^ (*self >> 63)) as u64);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let z = r.varint(64)?;
        Ok((z >> 1) as i64 ^ -((z & 1) as i64))
    }
    fn to_json(&self) -> Value {
        big(*self as i128)
    }
    fn type_name() -> String {
        "i64".into()
    }
}

macro_rules! float {
    ($t:ty, $bytes:literal) => {
        impl Field for $t {
            fn put(&self, w: &mut Writer) {
                w.raw(&self.to_le_bytes());
            }
            fn get(r: &mut Reader<'_>) -> Result<Self> {
                let mut b = [0u8; $bytes];
                b.copy_from_slice(r.take($bytes, "a float")?);
                Ok(<$t>::from_le_bytes(b))
            }
            fn to_json(&self) -> Value {
                json!(self)
            }
            fn type_name() -> String {
                stringify!($t).into()
            }
        }
    };
}
float!(f32, 4);
float!(f64, 8);

impl Field for String {
    fn put(&self, w: &mut Writer) {
        w.varint(self.len() as u64);
        w.raw(self.as_bytes());
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let b = r.bytes("a string")?;
        std::str::from_utf8(b)
            .map(str::to_owned)
            .map_err(|_| format!("a string that is not UTF-8 before byte {}", r.at))
    }
    fn to_json(&self) -> Value {
        json!(self)
    }
    fn type_name() -> String {
        "string".into()
    }
}

/// A byte string inside a head. Blobs do not belong there but into the tail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Field for Bytes {
    fn put(&self, w: &mut Writer) {
        w.varint(self.0.len() as u64);
        w.raw(&self.0);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Bytes(r.bytes("bytes")?.to_vec()))
    }
    fn to_json(&self) -> Value {
        json!(self.0.iter().map(|b| format!("{b:02x}")).collect::<String>())
    }
    fn type_name() -> String {
        "bytes".into()
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, w: &mut Writer) {
        match self {
            None => w.raw(&[0]),
            Some(v) => {
                w.raw(&[1]);
                v.put(w);
            }
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        match r.take(1, "an option")?[0] {
            0 => Ok(None),
            1 => T::get(r).map(Some),
            b => Err(format!("an option of {b} at byte {}", r.at)),
        }
    }
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }
    fn type_name() -> String {
        format!("option<{}>", T::type_name())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.varint(self.len() as u64);
        for v in self {
            v.put(w);
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let n = r.varint(64)?;
        // Every element takes at least one byte, so a count beyond the rest of the head is a lie.
        if n > r.remaining() as u64 {
            return Err(format!("a sequence of {n} in {} bytes at byte {}", r.remaining(), r.at));
        }
        (0..n).map(|_| T::get(r)).collect()
    }
    fn to_json(&self) -> Value {
        Value::Array(self.iter().map(T::to_json).collect())
    }
    fn type_name() -> String {
        format!("seq<{}>", T::type_name())
    }
}
