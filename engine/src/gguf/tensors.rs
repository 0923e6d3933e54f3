//! The tensor table, checked against the file before anything is read.

use super::cursor::{bad_at, shown, Cursor};
use super::metadata::{check_count, Metadata};
use super::types;
use crate::error::{Error, Result};
use crate::quant::DType;
use indexmap::map::Entry;
use indexmap::IndexMap;

/// Tensors in a file; the largest real models have a few thousand.
const MAX_TENSORS: u64 = 1 << 16;
/// ggml allows 64.
const MAX_NAME_BYTES: u64 = 256;
/// ggml's own limit.
pub(super) const MAX_DIMS: u32 = 4;
/// Name length, dimension count, one dimension, type, offset.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 8 + 4 + 8;
/// Where `general.alignment` is absent.
const DEFAULT_ALIGNMENT: u64 = 32;
/// Far above any page size; keeps the arithmetic small.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// One entry of the tensor table, checked against the file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Name.
    pub name: String,
    /// GGUF's type number; [`DType::from_gguf`] knows the ones the engine reads.
    pub type_number: u32,
    /// Type, if the engine reads it.
    pub dtype: Option<DType>,
    /// GGUF order: `ne[0]` is contiguous. One to four dimensions, none of them zero.
    pub dims: Vec<u64>,
    /// From the start of the file.
    pub offset: u64,
    /// Bytes; 0 for a type whose size is not known.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of elements; the table's check has seen that it fits.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Name of the type, also of one that the engine cannot read.
    pub fn type_name(&self) -> String {
        types::type_name(self.type_number)
    }
}

/// The alignment of tensor data.
pub(super) fn alignment(metadata: &Metadata) -> Result<u64> {
    let n = metadata.opt_u32("general.alignment")?.map_or(DEFAULT_ALIGNMENT, u64::from);
    if !n.is_power_of_two() || n > MAX_ALIGNMENT {
        let reason = format!("{n} is not a power of two up to {MAX_ALIGNMENT}");
        return Err(Error::bad_model("metadata general.alignment", reason));
    }
    Ok(n)
}

/// Reads the table of `count` tensors and makes offsets absolute.
pub(super) fn read(
    c: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<IndexMap<String, TensorInfo>> {
    check_count(c, count, MIN_ENTRY_BYTES, MAX_TENSORS, "tensor count")?;
    let mut tensors = IndexMap::new();
    for i in 0..count {
        let at = c.pos();
        let info = read_entry(c, i, alignment)?;
        let what = format!("tensor {}", shown(&info.name));
        match tensors.entry(info.name.clone()) {
            Entry::Vacant(slot) => {
                slot.insert(info);
            }
            Entry::Occupied(_) => return Err(bad_at(&what, at, "the name occurs twice")),
        }
    }
    // The header is shorter than the file, so this cannot overflow for any alignment that was accepted.
    let data = c.pos().next_multiple_of(alignment);
    place(&mut tensors, data, file_bytes)?;
    Ok(tensors)
}

fn read_entry(c: &mut Cursor<'_>, i: u64, alignment: u64) -> Result<TensorInfo> {
    let name = c.string(MAX_NAME_BYTES, &format!("name of tensor {i}"))?;
    let what = format!("tensor {}", shown(&name));
    let n_dims = c.u32(&what)?;
    if n_dims == 0 || n_dims > MAX_DIMS {
        return Err(c.bad(&what, format_args!("{n_dims} dimensions; 1 to {MAX_DIMS} are allowed")));
    }
    let mut dims = Vec::with_capacity(n_dims as usize);
    for _ in 0..n_dims {
        dims.push(c.u64(&what)?);
    }
    let type_number = c.u32(&what)?;
    let bytes = data_bytes(&dims, type_number).map_err(|reason| c.bad(&what, reason))?;
    let offset = c.u64(&what)?;
    if offset % alignment != 0 {
        return Err(
            c.bad(&what, format_args!("its offset {offset} is not a multiple of the alignment {alignment}"))
        );
    }
    Ok(TensorInfo { name, type_number, dtype: DType::from_gguf(type_number), dims, offset, bytes })
}

/// Bytes of a tensor's data, 0 when the type's size is not known.
pub(super) fn data_bytes(dims: &[u64], type_number: u32) -> Result<u64, String> {
    let elements = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
    // Signed 64-bit is what every other reader of the format holds counts in.
    let elements = elements
        .filter(|&n| n != 0 && n <= i64::MAX as u64)
        .ok_or(format!("impossible dimensions {dims:?}"))?;
    let Some((block_elems, block_bytes)) = types::block(type_number) else { return Ok(0) };
    if dims[0] % block_elems != 0 {
        let name = types::type_name(type_number);
        return Err(format!("rows of {} elements are not whole blocks of {name} ({block_elems})", dims[0]));
    }
    (elements / block_elems).checked_mul(block_bytes).ok_or(format!("impossible dimensions {dims:?}"))
}

/// Makes offsets absolute and refuses data outside the file or shared by two tensors.
fn place(tensors: &mut IndexMap<String, TensorInfo>, data: u64, file_bytes: u64) -> Result<()> {
    for t in tensors.values_mut() {
        let end = data.checked_add(t.offset).and_then(|start| start.checked_add(t.bytes));
        if end.is_none_or(|end| end > file_bytes) {
            let reason = format!(
                "its {} bytes at {} + {} lie outside the file of {file_bytes} bytes; the download may be incomplete",
                t.bytes, data, t.offset
            );
            return Err(Error::bad_model(format_args!("tensor {}", shown(&t.name)), reason));
        }
        t.offset += data;
    }
    let mut sorted: Vec<&TensorInfo> = tensors.values().filter(|t| t.bytes > 0).collect();
    sorted.sort_by_key(|t| t.offset);
    for pair in sorted.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.offset + a.bytes > b.offset {
            let reason = format!("its data at byte {} overlaps that of {}", b.offset, shown(&a.name));
            return Err(Error::bad_model(format_args!("tensor {}", shown(&b.name)), reason));
        }
    }
    Ok(())
}
