//! The bytes of a checkpoint (`docs/checkpoint.md` is the specification).
//!
//! ```text
//! magic    8 bytes  89 'L' 'E' 'A' 'N' 0D 0A 1A
//! version  u32      1, or 2 where version 1 cannot say it: compressed state, or a delta
//! sections u32
//! then for each section:  tag [4]  length u64  xxh3-64 u64     (of the section's bytes)
//! header   u64      xxh3-64 of everything above
//! then the sections' bytes, in order, without gaps; the file ends with the last one
//! ```
//! All numbers are little-endian. Sections, each exactly once and in this order: `META`
//! (JSON), `TOKS` (u32 each), `KV  ` (float32: full pages as in memory, then the used rows of the last),
//! `WIND` (float32: current convolution windows), `GENR` (JSON; empty outside a value).

mod read;
mod table;
mod write;

pub(super) use read::{decode, inspect, Input};
pub(super) use write::{Encoded, Parts};

use super::checkpoint::{CheckpointInfo, Identity};
use super::delta::ParentPages;
use super::pack;
use crate::adapter::AdapterUse;
use crate::backend::{KvType, LayerState, StateImage, StateShape, PAGE_TOKENS};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use table::{Section, Table};

/// Bytes of an element of the state.
const ELEMENT: usize = 4;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    fingerprint: u64,
    exactness_class: String,
    /// One entry a layer, see `layers_of`.
    layers: Vec<(u32, u32, u32)>,
    page_tokens: u32,
    filled: u32,
    capacity: u64,
    /// How keys and values are stored; absent for float32, as before there was a choice.
    #[serde(default, skip_serializing_if = "is_default")]
    kv: KvType,
    /// How the `KV  ` section is compressed, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packed: Option<Packed>,
    /// The pages that are the parent's and not in the `KV  ` section, of a delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentPages>,
    /// Absent where there are none, so that such a file is as before there were adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    adapters: Vec<AdapterUse>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    codec: String,
    /// Bytes of an element, each of which has its own plane.
    planes: u32,
}

fn is_default(kv: &KvType) -> bool {
    *kv == KvType::default()
}

/// Layers are written as (kind, a, b): 0 attention with heads and head size, 1 window with rows and channels.
fn layers_of(shape: &StateShape) -> Vec<(u32, u32, u32)> {
    shape
        .layers
        .iter()
        .map(|layer| match *layer {
            LayerState::Kv { n_kv_heads, head_dim, .. } => (0, n_kv_heads as u32, head_dim as u32),
            LayerState::Window { rows, channels, .. } => (1, rows as u32, channels as u32),
        })
        .collect()
}

/// The same arithmetic as [`StateShape::with_kv`], checked, since the numbers come from a file.
fn shape_of(layers: &[(u32, u32, u32)], kv_type: KvType) -> Option<StateShape> {
    let (mut kv, mut window) = (0usize, 0usize);
    let mut out = Vec::new();
    for &(kind, a, b) in layers {
        let (a, b) = (a as usize, b as usize);
        match kind {
            // Nothing without elements: what is walked head by head would not be bounded by the file.
            0 if a == 0 || b == 0 => return None,
            0 => {
                b.checked_mul(4 * PAGE_TOKENS)?;
                let n = a.checked_mul(kv_type.head_bytes(b) / 4)?;
                let (k, v) = (kv, kv.checked_add(n)?);
                kv = v.checked_add(n)?;
                out.push(LayerState::Kv { k, v, n_kv_heads: a, head_dim: b });
            }
            1 => {
                out.push(LayerState::Window { offset: window, rows: a, channels: b });
                window = window.checked_add(a.checked_mul(b)?)?;
            }
            _ => return None,
        }
    }
    Some(StateShape { layers: out, kv: kv_type, kv_elems: kv, window_elems: window })
}

/// Bytes of the `KV  ` section for `len` tokens: full pages, and the used rows of the last one with its window.
pub(super) fn kv_bytes(shape: &StateShape, len: usize) -> Option<usize> {
    let (full, rows) = (len / PAGE_TOKENS, len % PAGE_TOKENS);
    let partial = match rows {
        0 => 0,
        // A page's K and V are rows of whole bytes, of which there are `PAGE_TOKENS`.
        _ => (shape.kv_elems / (PAGE_TOKENS / ELEMENT))
            .checked_mul(rows)?
            .checked_add(shape.window_elems.checked_mul(ELEMENT)?)?,
    };
    let page = shape.kv_elems.checked_add(shape.window_elems)?;
    full.checked_mul(page)?.checked_mul(ELEMENT)?.checked_add(partial)
}

/// Bytes of raw state that `len` tokens take in a file.
pub(super) fn state_bytes(shape: &StateShape, len: usize) -> u64 {
    (kv_bytes(shape, len).unwrap_or(usize::MAX).saturating_add(shape.window_elems * 4)) as u64
}

impl Meta {
    fn needs_only_version_1(&self) -> bool {
        self.packed.is_none() && self.parent.is_none() && self.adapters.is_empty() && is_default(&self.kv)
    }

    /// Bytes of the `KV  ` section before compression; `None` where the numbers are impossible.
    fn raw_kv_bytes(&self, shape: &StateShape) -> Option<usize> {
        let (filled, shared) = (self.filled as usize, self.parent.as_ref().map_or(0, |p| p.pages as usize));
        let whole = kv_bytes(shape, filled)?;
        let elements = shape.kv_elems.checked_add(shape.window_elems)?;
        let theirs = shared.checked_mul(elements)?.checked_mul(ELEMENT)?;
        (shared <= filled / PAGE_TOKENS).then(|| whole.checked_sub(theirs)).flatten()
    }

    /// The state's shape, if the sections have the lengths that it and the other numbers ask for.
    fn check(&self, table: &Table) -> Result<StateShape> {
        let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
        if self.page_tokens as usize != PAGE_TOKENS {
            return Err(bad("META", format!("pages of {} tokens, not {PAGE_TOKENS}", self.page_tokens)));
        }
        let shape = shape_of(&self.layers, self.kv)
            .ok_or_else(|| bad("META", "the state's shape is impossible".into()))?;
        let (filled, tokens) = (self.filled as usize, table.len(Section::Tokens));
        if tokens % 4 != 0 || filled > tokens / 4 {
            return Err(bad("TOKS", format!("{tokens} bytes for {filled} filled tokens")));
        }
        let (kv, wanted) = (table.len(Section::Kv), self.raw_kv_bytes(&shape));
        match &self.packed {
            Some(packed) if packed.codec != pack::CODEC => {
                return Err(bad("META", format!("compressed by {:?}, which is not known", packed.codec)))
            }
            Some(_) if wanted.is_none() => return Err(bad("META", "the state's size is impossible".into())),
            Some(_) => {}
            None if wanted != Some(kv) => return Err(bad("KV", format!("{kv} bytes, expected {wanted:?}"))),
            None => {}
        }
        let windows = table.len(Section::Windows);
        if shape.window_elems.checked_mul(ELEMENT) != Some(windows) {
            return Err(bad("WIND", format!("{windows} bytes for {} elements", shape.window_elems)));
        }
        Ok(shape)
    }
}

/// What the bytes of a checkpoint say, without restoring them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckpointFile {
    /// Of the format.
    pub version: u32,
    /// Bytes of the whole.
    pub file_bytes: u64,
    /// Bytes of the state as they are stored: compressed, without the parent's pages.
    pub stored_state_bytes: u64,
    /// How the state is compressed, if it is.
    pub compression: Option<String>,
    /// Whole pages that a delta takes from its parent.
    pub parent_pages: Option<u32>,
    /// Tokens in a page.
    pub page_tokens: u32,
    /// Layers with keys and values.
    pub attention_layers: usize,
    /// Layers with a convolution window.
    pub window_layers: usize,
    /// Tokens that the session may hold.
    pub capacity: u64,
    /// What the checkpoint says of itself.
    #[serde(flatten)]
    pub info: CheckpointInfo,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Checkpoint;
    use twox_hash::XxHash3_64;

    /// A file whose checksums are right and whose META is not.
    fn forged(layers: &str, filled: u32) -> Vec<u8> {
        let meta = format!(
            r#"{{"fingerprint":1,"exactness_class":"x","layers":{layers},"page_tokens":{PAGE_TOKENS},"filled":{filled},"capacity":9}}"#
        );
        let sections = [meta.as_bytes(), &[0; 4], &[], &[], &[]];
        let table = Table { version: 1, sections: sections.map(|s| (s.len(), XxHash3_64::oneshot(s))) };
        [table.to_bytes().as_slice(), &sections.concat()].concat()
    }

    #[test]
    fn forged_shapes_are_errors_and_cost_nothing() {
        let most = u32::MAX;
        let half = 1u32 << 31;
        for (layers, filled) in [
            (format!("[[0,{most},0]]"), 1),
            (format!("[[0,0,{most}]]"), 0),
            (format!("[[0,{most},{most}]]"), 1),
            (format!("[[1,{most},{most}]]"), 0),
            ("[[2,1,1]]".to_string(), 0),
            ("[]".to_string(), 2),
        ] {
            match Checkpoint::from_bytes(&forged(&layers, filled)) {
                Err(Error::BadCheckpoint { .. }) => {}
                other => panic!("{layers}: {other:?}"),
            }
        }
        // Without tokens no page is there, however large it would be.
        assert!(Checkpoint::from_bytes(&forged(&format!("[[0,{half},{}]]", 1 << 26), 0)).is_ok());
    }
}
