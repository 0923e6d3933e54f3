//! Reading safetensors: a JSON table, then the tensors' bytes (<https://github.com/huggingface/safetensors>).

use crate::error::{Error, Result};
use crate::quant::{dequantize_row, DType};
use indexmap::IndexMap;
use serde::Deserialize;

/// The format's own limit on the table.
const MAX_HEADER: u64 = 100_000_000;

/// One tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor<'a> {
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    dtype: String,
    bytes: &'a [u8],
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// All tensors of a file, in the table's order. Every range and size is checked.
pub(super) fn read(bytes: &[u8]) -> Result<IndexMap<String, Tensor<'_>>> {
    let bad = |what: &str, reason: String| Error::bad_model(format_args!("adapter weights: {what}"), reason);
    let length = bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let rest = bytes.get(8..).unwrap_or_default();
    let header = length.filter(|&n| n <= MAX_HEADER).and_then(|n| rest.get(..usize::try_from(n).ok()?));
    let header = header.ok_or_else(|| {
        bad("header", format!("it does not fit in {} bytes; is it a whole .safetensors file?", bytes.len()))
    })?;
    let data = &rest[header.len()..];
    let table: IndexMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|e| bad("header", e.to_string()))?;
    let mut tensors = IndexMap::new();
    for (name, entry) in table {
        if name == "__metadata__" {
            continue;
        }
        let what = format!("tensor {}", shown(&name));
        let entry = Entry::deserialize(entry).map_err(|e| bad(&what, e.to_string()))?;
        let (from, to) = entry.data_offsets;
        let range = data.get(from..to).ok_or_else(|| {
            bad(&what, format!("its bytes {from}..{to} lie outside the {} there are", data.len()))
        })?;
        let tensor = Tensor { shape: entry.shape, dtype: entry.dtype, bytes: range };
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

impl Tensor<'_> {
    /// A matrix's size.
    pub(super) fn matrix(&self, name: &str) -> Result<(usize, usize)> {
        match self.shape[..] {
            [rows, cols] => Ok((rows, cols)),
            _ => Err(Error::bad_model(
                format_args!("adapter tensor {}", shown(name)),
                format_args!("its shape is {:?}, expected two dimensions", self.shape),
            )),
        }
    }

    /// Its numbers.
    pub(super) fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let what = || format!("adapter tensor {}", shown(name));
        let dtype = match self.dtype.as_str() {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            other => {
                let reason = format!("its type is {}; F32, F16 and BF16 are read", shown(other));
                return Err(Error::unsupported(what(), reason));
            }
        };
        let elems = self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let elems = elems.filter(|&n| dtype.bytes_of(n) == Some(self.bytes.len()));
        let elems = elems.ok_or_else(|| {
            Error::bad_model(
                what(),
                format_args!("{} bytes for a shape of {:?} in {dtype}", self.bytes.len(), self.shape),
            )
        })?;
        let mut out = crate::error::try_zeroed(elems, &what())?;
        dequantize_row(dtype, self.bytes, &mut out)?;
        Ok(out)
    }
}

/// A name from a file, for a message: bounded, without control characters.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(120).flat_map(char::escape_debug).collect()
}
