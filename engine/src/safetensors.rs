//! The table of a safetensors file: eight bytes with its length, the JSON table, then the tensors' bytes. The format:
//! <https://github.com/huggingface/safetensors#format>.

use crate::gguf::shown;
use crate::quant::DType;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use std::ops::Range;

/// The format's own limit on the table, in bytes.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Where a tensor lies, and what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// `None` for a type that is not a float of 16 or 32 bits; `type_name` says which.
    pub dtype: Option<DType>,
    /// As the file calls it.
    pub type_name: String,
    /// Outermost dimension first.
    pub shape: Vec<u64>,
    /// Bytes from the start of the data, which follows the table.
    pub range: Range<u64>,
}

#[derive(Deserialize)]
struct Raw {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The tensors of a table, in its order, of a file with `data_bytes` bytes behind it. Every range lies within the
/// data; a float's is as long as its shape says.
/// # Errors
/// The reason, with the tensor's name.
pub fn table(header: &[u8], data_bytes: u64) -> Result<IndexMap<String, Entry>, String> {
    let table: IndexMap<String, Value> =
        serde_json::from_slice(header).map_err(|e| format!("its header is no JSON object: {e}"))?;
    let tensors = table.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, value)| match entry(value, data_bytes) {
            Ok(entry) => Ok((name, entry)),
            Err(reason) => Err(format!("tensor {}: {reason}", shown(&name))),
        })
        .collect()
}

fn entry(value: Value, data_bytes: u64) -> Result<Entry, String> {
    let Raw { dtype: type_name, shape, data_offsets: (from, to) } =
        Raw::deserialize(value).map_err(|e| e.to_string())?;
    if from > to || to > data_bytes {
        return Err(format!(
            "its data at {from}..{to} is not within the file, which has {data_bytes} bytes of data"
        ));
    }
    let dtype = match type_name.as_str() {
        "F32" => Some(DType::F32),
        "F16" => Some(DType::F16),
        "BF16" => Some(DType::BF16),
        _ => None,
    };
    if let Some(dtype) = dtype {
        let elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let bytes = elements.and_then(|n| n.checked_mul(dtype.block_bytes() as u64));
        if bytes != Some(to - from) {
            return Err(format!("its {} bytes are not a {type_name} of shape {shape:?}", to - from));
        }
    }
    Ok(Entry { dtype, type_name, shape, range: from..to })
}
