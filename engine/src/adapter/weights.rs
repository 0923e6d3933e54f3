//! The tensors of a PEFT adapter's safetensors file.

use crate::error::{Error, Result};
use crate::gguf::shown;
use crate::quant::dequantize_row;
use crate::safetensors::{table, Entry, MAX_HEADER_BYTES};
use indexmap::IndexMap;

/// One tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor<'a> {
    entry: Entry,
    bytes: &'a [u8],
}

/// All tensors of a file, in the table's order. Every range and size is checked.
pub(super) fn read(bytes: &[u8]) -> Result<IndexMap<String, Tensor<'_>>> {
    let bad = |reason: String| Error::bad_model("adapter weights", reason);
    let length = bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    let rest = bytes.get(8..).unwrap_or_default();
    let header = length.filter(|&n| n <= MAX_HEADER_BYTES).and_then(|n| rest.get(..usize::try_from(n).ok()?));
    let header = header.ok_or_else(|| {
        bad(format!("the header does not fit in {} bytes; is it a whole .safetensors file?", bytes.len()))
    })?;
    let data = &rest[header.len()..];
    let table = table(header, data.len() as u64).map_err(bad)?;
    // The table's ranges lie within the data, so they fit in memory's sizes, too.
    let tensor =
        |entry: Entry| Tensor { bytes: &data[entry.range.start as usize..entry.range.end as usize], entry };
    Ok(table.into_iter().map(|(name, entry)| (name, tensor(entry))).collect())
}

impl Tensor<'_> {
    /// Outermost dimension first.
    pub(super) fn shape(&self) -> &[u64] {
        &self.entry.shape
    }

    /// A matrix's size.
    pub(super) fn matrix(&self, name: &str) -> Result<(usize, usize)> {
        let size = |d: u64| usize::try_from(d).ok();
        let matrix = match self.entry.shape[..] {
            [rows, cols] => size(rows).zip(size(cols)),
            _ => None,
        };
        matrix.ok_or_else(|| {
            Error::bad_model(
                format_args!("adapter tensor {}", shown(name)),
                format_args!("its shape is {:?}, expected two dimensions", self.entry.shape),
            )
        })
    }

    /// Its numbers.
    pub(super) fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let what = || format!("adapter tensor {}", shown(name));
        let dtype = self.entry.dtype.ok_or_else(|| {
            let found = shown(&self.entry.type_name);
            Error::unsupported(what(), format_args!("its type is {found}; F32, F16 and BF16 are read"))
        })?;
        let mut out = crate::error::try_zeroed(self.bytes.len() / dtype.block_bytes(), &what())?;
        dequantize_row(dtype, self.bytes, &mut out)?;
        Ok(out)
    }
}
