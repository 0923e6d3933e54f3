//! What a model file says about itself, for people; also where the engine cannot run it.

use crate::error::Result;
use crate::gguf::{Gguf, TensorInfo};
use indexmap::IndexMap;

/// A summary of a model file.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, if the file has one.
    pub name: Option<String>,
    /// `general.license`, if the file has one.
    pub license: Option<String>,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Positions that the model was made for, if the file says so.
    pub context_length: Option<u32>,
    /// What most weight bytes are stored as, such as `Q4_K`; `None` for a file without tensors.
    pub main_type: Option<String>,
    /// Number of tensors and their bytes by type, in the order of first occurrence.
    pub types: IndexMap<String, (usize, u64)>,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
}

impl ModelInfo {
    /// Reads the summary.
    /// # Errors
    /// [`crate::Error::BadModel`] when a key has an unexpected type or the architecture is missing.
    pub fn read(gguf: &Gguf) -> Result<Self> {
        let m = &gguf.metadata;
        let architecture = m.str("general.architecture")?.to_string();
        let mut types: IndexMap<String, (usize, u64)> = IndexMap::new();
        for t in gguf.tensors.values() {
            let entry = types.entry(t.type_name()).or_default();
            *entry = (entry.0 + 1, entry.1 + t.bytes);
        }
        let context_length = m.opt_u32(&format!("{architecture}.context_length"))?;
        Ok(ModelInfo {
            name: m.opt_str("general.name")?.map(str::to_string),
            license: m.opt_str("general.license")?.map(str::to_string),
            parameters: gguf.tensors.values().map(TensorInfo::elements).fold(0, u64::saturating_add),
            context_length,
            main_type: types.iter().max_by_key(|(_, v)| v.1).map(|(k, _)| k.clone()),
            tensor_bytes: gguf.tensors.values().map(|t| t.bytes).sum(),
            types,
            architecture,
        })
    }
}
