//! The bytes of a checkpoint (`docs/checkpoint.md` is the specification).
//!
//! ```text
//! magic    8 bytes  89 'L' 'E' 'A' 'N' 0D 0A 1A
//! version  u32      1
//! sections u32
//! then for each section:  tag [4]  length u64  xxh3-64 u64     (of the section's bytes)
//! header   u64      xxh3-64 of everything above
//! then the sections' bytes, in order, without gaps; the file ends with the last one
//! ```
//! All numbers are little-endian. Sections of version 1, each exactly once and in this order: `META`
//! (JSON), `TOKS` (u32 each), `KV  ` (float32: full pages as in memory, then the used rows of the last),
//! `WIND` (float32: current convolution windows), `GENR` (JSON; empty outside a value).

use super::checkpoint::{Checkpoint, Identity};
use crate::backend::{LayerState, StateImage, StateShape, PAGE_TOKENS};
use crate::error::{try_zeroed, Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"\x89LEAN\r\n\x1a";
const VERSION: u32 = 1;
const TAGS: [[u8; 4]; 5] = [*b"META", *b"TOKS", *b"KV  ", *b"WIND", *b"GENR"];
const TABLE_START: usize = 16;
const ENTRY: usize = 20;
const HEADER: usize = TABLE_START + ENTRY * TAGS.len() + 8;

/// What is written.
pub(super) struct Parts<'a> {
    pub identity: &'a Identity,
    pub tokens: &'a [u32],
    pub capacity: usize,
    pub resume: Option<&'a [u8]>,
    pub image: &'a StateImage,
}

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

/// The same arithmetic as [`StateShape::new`], checked, since the numbers come from a file.
fn shape_of(layers: &[(u32, u32, u32)]) -> Option<StateShape> {
    let (mut kv, mut window) = (0usize, 0usize);
    let mut out = Vec::new();
    for &(kind, a, b) in layers {
        let (a, b) = (a as usize, b as usize);
        match kind {
            // Nothing without elements: what is walked head by head would not be bounded by the file.
            0 if a == 0 || b == 0 => return None,
            0 => {
                let n = a.checked_mul(b)?.checked_mul(PAGE_TOKENS)?;
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
    Some(StateShape { layers: out, kv_elems: kv, window_elems: window })
}

/// Bytes of the `KV  ` section for `len` tokens: full pages, and the used rows of the last one with its window.
pub(super) fn kv_bytes(shape: &StateShape, len: usize) -> Option<usize> {
    let (full, rows) = (len / PAGE_TOKENS, len % PAGE_TOKENS);
    let partial = match rows {
        0 => 0,
        _ => (shape.kv_elems / PAGE_TOKENS).checked_mul(rows)?.checked_add(shape.window_elems)?,
    };
    let page = shape.kv_elems.checked_add(shape.window_elems)?;
    full.checked_mul(page)?.checked_add(partial)?.checked_mul(4)
}

/// Bytes of raw state that `len` tokens take in a file.
pub(super) fn state_bytes(shape: &StateShape, len: usize) -> u64 {
    (kv_bytes(shape, len).unwrap_or(usize::MAX).saturating_add(shape.window_elems * 4)) as u64
}

/// The runs of a page's elements that belong to its first `rows` tokens, in file order.
fn used_runs(shape: &StateShape, rows: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    for layer in &shape.layers {
        if let LayerState::Kv { k, v, n_kv_heads, head_dim } = *layer {
            for base in [k, v] {
                for head in 0..n_kv_heads {
                    let start = base + head * PAGE_TOKENS * head_dim;
                    runs.push(start..start + rows * head_dim);
                }
            }
        }
    }
    runs.push(shape.kv_elems..shape.page_elems());
    runs
}

pub(super) fn encode(parts: &Parts<'_>) -> Result<Vec<u8>> {
    let (shape, image) = (&parts.identity.shape, parts.image);
    let meta = Meta {
        fingerprint: parts.identity.fingerprint,
        exactness_class: parts.identity.exactness_class.clone(),
        layers: layers_of(shape),
        page_tokens: PAGE_TOKENS as u32,
        filled: image.len as u32,
        capacity: parts.capacity as u64,
    };
    let json = |e: serde_json::Error| Error::Internal(format!("checkpoint metadata: {e}"));
    let meta = serde_json::to_vec(&meta).map_err(json)?;
    let resume = parts.resume.unwrap_or_default();
    let kv = kv_bytes(shape, image.len).ok_or_else(|| Error::Internal("state size overflows".into()))?;
    let lengths = [meta.len(), parts.tokens.len() * 4, kv, image.windows.len() * 4, resume.len()];

    let total = HEADER + lengths.iter().sum::<usize>();
    let mut out = Vec::new();
    out.try_reserve_exact(total)
        .map_err(|_| Error::OutOfMemory { wanted: total as u64, what: "checkpoint bytes".into() })?;
    out.resize(HEADER, 0);
    out.extend_from_slice(&meta);
    out.extend(parts.tokens.iter().flat_map(|t| t.to_le_bytes()));
    for page in image.pages.iter().take(image.len / PAGE_TOKENS) {
        push_floats(&mut out, page);
    }
    if image.len % PAGE_TOKENS != 0 {
        let page = image.pages.last().ok_or_else(|| Error::Internal("a page is missing".into()))?;
        for run in used_runs(shape, image.len % PAGE_TOKENS) {
            push_floats(&mut out, &page[run]);
        }
    }
    push_floats(&mut out, &image.windows);
    out.extend_from_slice(resume);
    if out.len() != total {
        return Err(Error::Internal(format!("checkpoint has {} bytes, not {total}", out.len())));
    }
    write_header(&mut out, &lengths);
    Ok(out)
}

fn write_header(out: &mut [u8], lengths: &[usize; 5]) {
    let (header, body) = out.split_at_mut(HEADER);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(TAGS.len() as u32).to_le_bytes());
    let mut at = 0;
    for (i, (tag, len)) in TAGS.iter().zip(lengths).enumerate() {
        let entry = &mut header[TABLE_START + i * ENTRY..][..ENTRY];
        entry[..4].copy_from_slice(tag);
        entry[4..12].copy_from_slice(&(*len as u64).to_le_bytes());
        entry[12..].copy_from_slice(&XxHash3_64::oneshot(&body[at..at + len]).to_le_bytes());
        at += len;
    }
    let digest = XxHash3_64::oneshot(&header[..HEADER - 8]);
    header[HEADER - 8..].copy_from_slice(&digest.to_le_bytes());
}

fn push_floats(out: &mut Vec<u8>, floats: &[f32]) {
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(floats));
    } else {
        out.extend(floats.iter().flat_map(|x| x.to_le_bytes()));
    }
}

fn read_floats(to: &mut [f32], bytes: &[u8]) {
    for (x, b) in to.iter_mut().zip(bytes.chunks_exact(4)) {
        *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Checkpoint> {
    let [meta, tokens, kv, windows, resume] = sections(bytes)?;
    let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
    let meta: Meta = serde_json::from_slice(meta).map_err(|e| bad("META", e.to_string()))?;
    if meta.page_tokens as usize != PAGE_TOKENS {
        return Err(bad("META", format!("pages of {} tokens, not {PAGE_TOKENS}", meta.page_tokens)));
    }
    let shape =
        shape_of(&meta.layers).ok_or_else(|| bad("META", "the state's shape is impossible".into()))?;
    let filled = meta.filled as usize;
    if tokens.len() % 4 != 0 || filled > tokens.len() / 4 {
        return Err(bad("TOKS", format!("{} bytes for {filled} filled tokens", tokens.len())));
    }
    let wanted = kv_bytes(&shape, filled);
    if wanted != Some(kv.len()) {
        return Err(bad("KV", format!("{} bytes, expected {wanted:?}", kv.len())));
    }
    if shape.window_elems.checked_mul(4) != Some(windows.len()) {
        return Err(bad("WIND", format!("{} bytes for {} elements", windows.len(), shape.window_elems)));
    }
    let resume = (!resume.is_empty()).then(|| resume.to_vec());
    let image = decode_image(&shape, filled, kv, windows)?;
    let tokens = tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let identity = Identity { fingerprint: meta.fingerprint, exactness_class: meta.exactness_class, shape };
    Ok(Checkpoint::host(
        identity,
        tokens,
        usize::try_from(meta.capacity).unwrap_or(usize::MAX),
        resume,
        image,
    ))
}

fn decode_image(shape: &StateShape, len: usize, kv: &[u8], windows: &[u8]) -> Result<StateImage> {
    let page_elems = shape.page_elems();
    let mut pages: Vec<Arc<[f32]>> = Vec::new();
    let (full, partial) = kv.split_at(len / PAGE_TOKENS * page_elems * 4);
    // Without a whole page nothing has bounded its size yet.
    for bytes in full.chunks_exact(page_elems.saturating_mul(4).max(1)) {
        let mut page = try_zeroed(page_elems, "checkpoint page")?;
        read_floats(&mut page, bytes);
        pages.push(page.into());
    }
    if len % PAGE_TOKENS != 0 {
        let mut page: Vec<f32> = try_zeroed(page_elems, "checkpoint page")?;
        let mut rest = partial;
        for run in used_runs(shape, len % PAGE_TOKENS) {
            let (bytes, after) = rest.split_at(run.len() * 4);
            read_floats(&mut page[run], bytes);
            rest = after;
        }
        pages.push(page.into());
    }
    let mut current = try_zeroed(shape.window_elems, "convolution windows")?;
    read_floats(&mut current, windows);
    Ok(StateImage { len, pages, windows: current })
}

/// Splits and verifies the file: every byte is covered by the header's or a section's checksum.
fn sections(bytes: &[u8]) -> Result<[&[u8]; 5]> {
    let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
    if bytes.len() < 8 || bytes[..8] != MAGIC {
        return Err(bad("magic", "this is not a lean checkpoint".into()));
    }
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes.len() < HEADER {
        return Err(bad("header", format!("{} bytes, the header alone has {HEADER}", bytes.len())));
    }
    if u32_at(8) != VERSION {
        return Err(Error::Incompatible {
            what: "checkpoint format version".into(),
            expected: VERSION.to_string(),
            found: u32_at(8).to_string(),
        });
    }
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if XxHash3_64::oneshot(&bytes[..HEADER - 8]) != u64_at(HEADER - 8) {
        return Err(bad("header", "the checksum does not match: the file is damaged".into()));
    }
    if u32_at(12) as usize != TAGS.len() {
        return Err(bad("header", format!("{} sections, expected {}", u32_at(12), TAGS.len())));
    }
    let mut out: [&[u8]; 5] = [&[]; 5];
    let mut rest = &bytes[HEADER..];
    for (i, tag) in TAGS.iter().enumerate() {
        let at = TABLE_START + i * ENTRY;
        let name = String::from_utf8_lossy(tag);
        if bytes[at..at + 4] != *tag {
            return Err(bad(&name, "the section is missing".into()));
        }
        let len = u64_at(at + 4);
        let section = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let section = section.ok_or_else(|| {
            bad(&name, format!("{len} bytes, {} are left: the file is truncated", rest.len()))
        })?;
        if XxHash3_64::oneshot(section) != u64_at(at + 12) {
            return Err(bad(&name, "the checksum does not match: the file is damaged".into()));
        }
        out[i] = section;
        rest = &rest[section.len()..];
    }
    if !rest.is_empty() {
        return Err(bad("end", format!("{} bytes follow the last section", rest.len())));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose checksums are right and whose META is not.
    fn forged(layers: &str, filled: u32) -> Vec<u8> {
        let meta = format!(
            r#"{{"fingerprint":1,"exactness_class":"x","layers":{layers},"page_tokens":{PAGE_TOKENS},"filled":{filled},"capacity":9}}"#
        );
        let mut out = vec![0; HEADER];
        out.extend(meta.as_bytes());
        out.extend([0; 4]);
        write_header(&mut out, &[meta.len(), 4, 0, 0, 0]);
        out
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
            match decode(&forged(&layers, filled)) {
                Err(Error::BadCheckpoint { .. }) => {}
                other => panic!("{layers}: {other:?}"),
            }
        }
        // Without tokens no page is there, however large it would be.
        assert!(decode(&forged(&format!("[[0,{half},{}]]", 1 << 26), 0)).is_ok());
    }
}
