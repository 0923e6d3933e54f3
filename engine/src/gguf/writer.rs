//! Writing GGUF version 3: metadata and tensor table first, then the data tensor by tensor in pieces of any size, so
//! that no more of a model is in memory than its caller holds.

use super::metadata::{Value, ValueType};
use super::tensors::{data_bytes, MAX_DIMS};
use super::Gguf;
use crate::error::{Error, Result};
use crate::quant::DType;
use indexmap::IndexMap;
use std::io::Write;

/// Every tensor starts at a multiple of this from the start of the data.
pub const ALIGNMENT: u64 = 32;
/// ggml keeps names in 64 bytes with a zero at the end.
const MAX_NAME_BYTES: usize = 63;
/// The key that would contradict [`ALIGNMENT`].
const ALIGNMENT_KEY: &str = "general.alignment";

/// A file whose header is being put together. Pairs and tensors are written in the order of their first mention.
#[derive(Default)]
pub struct Writer {
    /// Type number and value of each pair, as they stand in the file.
    pub(super) pairs: IndexMap<String, Vec<u8>>,
    tensors: IndexMap<String, Slot>,
}

/// An entry of the tensor table.
struct Slot {
    dims: Vec<u64>,
    dtype: DType,
    bytes: u64,
}

impl Writer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a pair, or sets it anew, in the type that other programs expect: 32 bits for numbers that fit, float32
    /// unless that loses something, and an array of 32-bit integers for one without elements.
    /// # Errors
    /// [`Error::InvalidArgument`] for the key of the alignment, which is always [`ALIGNMENT`].
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        let value = value.into();
        self.set_as(key, natural_type(&value), &value)
    }

    /// Sets a pair in a given type: that of a scalar, or that of an array's elements.
    /// # Errors
    /// [`Error::InvalidArgument`] when the value does not fit in the type, otherwise as [`Writer::set`].
    pub fn set_as(&mut self, key: &str, ty: ValueType, value: &Value) -> Result<()> {
        if key == ALIGNMENT_KEY {
            return Err(Error::invalid(key, format_args!("files are always aligned to {ALIGNMENT}")));
        }
        let mut bytes = Vec::new();
        put_value(&mut bytes, ty, value).ok_or_else(|| {
            Error::invalid(
                format_args!("metadata {key}"),
                format_args!("{} does not fit in {ty:?}", value.kind()),
            )
        })?;
        self.pairs.insert(key.into(), bytes);
        Ok(())
    }

    /// Takes a pair over from another file, byte for byte.
    /// # Errors
    /// [`Error::BadModel`] when that file has no such key, [`Error::ModelIo`] when reading fails, otherwise as
    /// [`Writer::set`].
    pub fn copy(&mut self, from: &Gguf, key: &str) -> Result<()> {
        if key == ALIGNMENT_KEY {
            return Err(Error::invalid(key, format_args!("files are always aligned to {ALIGNMENT}")));
        }
        self.pairs.insert(key.into(), from.pair_bytes(key)?);
        Ok(())
    }

    /// Adds a tensor to the table; `dims[0]` is contiguous. Returns the bytes that its data will have.
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that is taken or longer than 63 bytes, and for a shape that the format
    /// or the type does not allow.
    pub fn tensor(&mut self, name: &str, dims: &[u64], dtype: DType) -> Result<u64> {
        let bad =
            |reason: String| Err(Error::invalid(format_args!("tensor {}", name.escape_debug()), reason));
        if name.len() > MAX_NAME_BYTES {
            return bad(format!("its name is longer than {MAX_NAME_BYTES} bytes"));
        }
        if dims.is_empty() || dims.len() > MAX_DIMS as usize {
            return bad(format!("{} dimensions; 1 to {MAX_DIMS} are allowed", dims.len()));
        }
        let bytes = match data_bytes(dims, dtype as u32) {
            Ok(bytes) => bytes,
            Err(reason) => return bad(reason),
        };
        if self.tensors.insert(name.into(), Slot { dims: dims.to_vec(), dtype, bytes }).is_some() {
            return bad("the name occurs twice".into());
        }
        Ok(bytes)
    }

    /// Writes the header; the data of the tensors follows in the order of the table. `label` names the output in
    /// errors.
    /// # Errors
    /// [`Error::Io`] when writing fails.
    pub fn begin<W: Write>(self, mut out: W, label: &str) -> Result<TensorWriter<W>> {
        let mut header = b"GGUF".to_vec();
        header.extend(3u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, bytes) in &self.pairs {
            put_string(&mut header, key);
            header.extend(bytes);
        }
        let mut offset = 0u64;
        for (name, slot) in &self.tensors {
            put_string(&mut header, name);
            header.extend((slot.dims.len() as u32).to_le_bytes());
            slot.dims.iter().for_each(|d| header.extend(d.to_le_bytes()));
            header.extend((slot.dtype as u32).to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset += slot.bytes.next_multiple_of(ALIGNMENT);
        }
        header.resize(header.len().next_multiple_of(ALIGNMENT as usize), 0);
        out.write_all(&header).map_err(|e| Error::io(label, e))?;
        let slots = self.tensors.into_iter().map(|(name, slot)| (name, slot.bytes)).collect();
        Ok(TensorWriter { out, label: label.into(), slots, current: 0, written: 0 })
    }
}

/// The second half of a file: the data of its tensors.
pub struct TensorWriter<W> {
    out: W,
    label: String,
    /// Name and bytes of each tensor.
    slots: Vec<(String, u64)>,
    current: usize,
    /// Bytes of the current tensor that have been written.
    written: u64,
}

impl<W: Write> TensorWriter<W> {
    /// The tensor whose data is expected next.
    pub fn current(&self) -> Option<&str> {
        self.slots.get(self.current).map(|s| s.0.as_str())
    }

    /// The next bytes of the current tensor; the following call goes on with it, or with the next tensor once it is
    /// complete.
    /// # Errors
    /// [`Error::InvalidArgument`] for more bytes than the tensor has, [`Error::Io`] when writing fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some((name, size)) = self.slots.get(self.current) else {
            return Err(Error::invalid("tensor data", "every tensor is complete"));
        };
        let end = self.written + bytes.len() as u64;
        if end > *size {
            let reason = format!("{end} bytes of data, its shape and type make {size}");
            return Err(Error::invalid(format_args!("tensor {}", name.escape_debug()), reason));
        }
        self.out.write_all(bytes).map_err(|e| Error::io(&self.label, e))?;
        self.written = end;
        if end == *size {
            let padding = (size.next_multiple_of(ALIGNMENT) - size) as usize;
            self.out.write_all(&[0; ALIGNMENT as usize][..padding]).map_err(|e| Error::io(&self.label, e))?;
            (self.current, self.written) = (self.current + 1, 0);
        }
        Ok(())
    }

    /// Ends the file and gives the output back.
    /// # Errors
    /// [`Error::InvalidArgument`] when a tensor is not complete, [`Error::Io`] when writing fails.
    pub fn finish(mut self) -> Result<W> {
        if let Some((name, size)) = self.slots.get(self.current) {
            let reason = format!("{} of its {size} bytes were written", self.written);
            return Err(Error::invalid(format_args!("tensor {}", name.escape_debug()), reason));
        }
        self.out.flush().map_err(|e| Error::io(&self.label, e))?;
        Ok(self.out)
    }
}

/// The type of a scalar, or of an array's elements.
fn natural_type(value: &Value) -> ValueType {
    let uint = |n: &u64| if *n <= u32::MAX.into() { ValueType::U32 } else { ValueType::U64 };
    let int = |n: &i64| if i32::try_from(*n).is_ok() { ValueType::I32 } else { ValueType::I64 };
    match value {
        Value::Uint(n) => uint(n),
        Value::Int(n) => int(n),
        // A NaN equals nothing, and both widths hold one.
        Value::Float(x) if f64::from(*x as f32) == *x || x.is_nan() => ValueType::F32,
        Value::Float(_) => ValueType::F64,
        Value::Bool(_) | Value::Bools(_) => ValueType::Bool,
        Value::String(_) | Value::Strings(_) => ValueType::String,
        Value::Uints(v) => v.iter().map(uint).find(|t| *t == ValueType::U64).unwrap_or(ValueType::U32),
        Value::Ints(v) => v.iter().map(int).find(|t| *t == ValueType::I64).unwrap_or(ValueType::I32),
        Value::Floats(_) => ValueType::F32,
        Value::Arrays(_) => ValueType::Array,
    }
}

/// Type number and value; `None` when the value is none of the type.
fn put_value(out: &mut Vec<u8>, ty: ValueType, value: &Value) -> Option<()> {
    let array = !matches!(
        value,
        Value::Uint(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::String(_)
    );
    let number = if array { ValueType::Array } else { ty };
    out.extend((number as u32).to_le_bytes());
    match value {
        Value::Uint(n) => put_int(out, ty, (*n).into()),
        Value::Int(n) => put_int(out, ty, (*n).into()),
        Value::Float(x) => put_float(out, ty, *x),
        Value::Bool(b) => put_bool(out, ty, *b),
        Value::String(s) => put_text(out, ty, s),
        Value::Strings(v) => put_array(out, ty, v, |out, s| put_text(out, ty, s)),
        Value::Uints(v) => put_array(out, ty, v, |out, n| put_int(out, ty, (*n).into())),
        Value::Ints(v) => put_array(out, ty, v, |out, n| put_int(out, ty, (*n).into())),
        Value::Floats(v) => put_array(out, ty, v, |out, x| put_float(out, ty, (*x).into())),
        Value::Bools(v) => put_array(out, ty, v, |out, b| put_bool(out, ty, *b)),
        Value::Arrays(v) => put_array(out, ty, v, |out, inner| match inner {
            Value::Uint(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::String(_) => None,
            array => {
                // An array inside an array has no type number in front: that its kind is array is said once.
                let mut bytes = Vec::new();
                put_value(&mut bytes, natural_type(array), array)?;
                out.extend(&bytes[4..]);
                Some(())
            }
        }),
    }
}

fn put_array<T>(
    out: &mut Vec<u8>,
    ty: ValueType,
    items: &[T],
    mut put: impl FnMut(&mut Vec<u8>, &T) -> Option<()>,
) -> Option<()> {
    out.extend((ty as u32).to_le_bytes());
    out.extend((items.len() as u64).to_le_bytes());
    items.iter().try_for_each(|item| put(out, item))
}

fn put_int(out: &mut Vec<u8>, ty: ValueType, n: i128) -> Option<()> {
    match ty {
        ValueType::U8 => out.extend(u8::try_from(n).ok()?.to_le_bytes()),
        ValueType::I8 => out.extend(i8::try_from(n).ok()?.to_le_bytes()),
        ValueType::U16 => out.extend(u16::try_from(n).ok()?.to_le_bytes()),
        ValueType::I16 => out.extend(i16::try_from(n).ok()?.to_le_bytes()),
        ValueType::U32 => out.extend(u32::try_from(n).ok()?.to_le_bytes()),
        ValueType::I32 => out.extend(i32::try_from(n).ok()?.to_le_bytes()),
        ValueType::U64 => out.extend(u64::try_from(n).ok()?.to_le_bytes()),
        ValueType::I64 => out.extend(i64::try_from(n).ok()?.to_le_bytes()),
        ValueType::F32 | ValueType::F64 | ValueType::Bool | ValueType::String | ValueType::Array => {
            return None
        }
    }
    Some(())
}

fn put_float(out: &mut Vec<u8>, ty: ValueType, x: f64) -> Option<()> {
    match ty {
        ValueType::F32 => out.extend((x as f32).to_le_bytes()),
        ValueType::F64 => out.extend(x.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

fn put_bool(out: &mut Vec<u8>, ty: ValueType, b: bool) -> Option<()> {
    (ty == ValueType::Bool).then(|| out.push(b.into()))
}

fn put_text(out: &mut Vec<u8>, ty: ValueType, s: &str) -> Option<()> {
    (ty == ValueType::String).then(|| put_string(out, s))
}

fn put_string(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}
