//! Writes small GGUF files for tests, wrong ones too. It shares nothing with the real writer, so that no mistake of
//! that one hides here.

use super::Value;

/// A file under construction. Integers are written as 32 bits, floats as float32.
#[derive(Clone)]
pub struct Writer {
    /// 2 or 3, or something to be refused.
    pub version: u32,
    /// Pairs in order; nothing stops a test from repeating a key.
    pub pairs: Vec<(String, Value)>,
    /// Name, dimensions, type number, data.
    pub tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
    /// Of tensor data.
    pub alignment: usize,
}

impl Writer {
    pub fn new() -> Self {
        Writer { version: 3, pairs: Vec::new(), tensors: Vec::new(), alignment: 32 }
    }

    pub fn set(&mut self, key: &str, value: Value) {
        self.pairs.retain(|p| p.0 != key);
        self.pairs.push((key.into(), value));
    }

    pub fn str(&mut self, key: &str, value: &str) {
        self.set(key, Value::String(value.into()));
    }

    pub fn uint(&mut self, key: &str, value: u64) {
        self.set(key, Value::Uint(value));
    }

    /// A float32 tensor of zeros.
    pub fn zeros(&mut self, name: &str, dims: &[u64]) {
        let bytes = dims.iter().product::<u64>() as usize * 4;
        self.tensors.retain(|t| t.0 != name);
        self.tensors.push((name.into(), dims.to_vec(), 0, vec![0; bytes]));
    }

    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            string(&mut out, key);
            out.extend(type_number(value).to_le_bytes());
            payload(&mut out, value);
        }
        let mut data = Vec::new();
        for (name, dims, number, bytes) in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            string(&mut out, name);
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(number.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(data);
        out
    }
}

fn string(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

fn type_number(value: &Value) -> u32 {
    match value {
        Value::Uint(_) => 4,
        Value::Int(_) => 5,
        Value::Float(_) => 6,
        Value::Bool(_) => 7,
        Value::String(_) => 8,
        _ => 9,
    }
}

fn payload(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Uint(n) => out.extend((*n as u32).to_le_bytes()),
        Value::Int(n) => out.extend((*n as i32).to_le_bytes()),
        Value::Float(x) => out.extend((*x as f32).to_le_bytes()),
        Value::Bool(b) => out.push((*b).into()),
        Value::String(s) => string(out, s),
        Value::Strings(v) => list(out, v.iter().map(|s| Value::String(s.clone()))),
        Value::Uints(v) => list(out, v.iter().map(|&n| Value::Uint(n))),
        Value::Ints(v) => list(out, v.iter().map(|&n| Value::Int(n))),
        Value::Floats(v) => list(out, v.iter().map(|&x| Value::Float(x.into()))),
        Value::Bools(v) => list(out, v.iter().map(|&b| Value::Bool(b))),
        Value::Arrays(v) => list(out, v.iter().cloned()),
    }
}

/// An array; one without items is an array of strings.
fn list(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = Value>) {
    let len = items.len() as u64;
    let mut body = Vec::new();
    let mut number = 8u32;
    for item in items {
        number = type_number(&item);
        payload(&mut body, &item);
    }
    out.extend(number.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(body);
}
