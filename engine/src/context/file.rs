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

use super::checkpoint::{Checkpoint, CheckpointInfo, Identity};
use super::delta::{self, ParentPages};
use super::pack;
use crate::adapter::AdapterUse;
use crate::backend::{KvType, LayerState, StateImage, StateShape, PAGE_TOKENS};
use crate::error::{try_zeroed, Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"\x89LEAN\r\n\x1a";
/// The newest version that is read; the oldest that can say it is written.
const VERSION: u32 = 2;
/// Bytes of an element of the state.
const ELEMENT: usize = 4;
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
    /// Whether the state may be compressed.
    pub compress: bool,
    /// The state of which only the difference is written.
    pub parent: Option<&'a StateImage>,
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

pub(super) fn encode(parts: &Parts<'_>) -> Result<Vec<u8>> {
    let shape = &parts.identity.shape;
    let parent =
        parts.parent.map(|parent| delta::shared(parts.image, parent)).filter(|shared| shared.pages > 0);
    let first = parent.as_ref().map_or(0, |shared| shared.pages as usize);
    let whole =
        kv_bytes(shape, parts.image.len).ok_or_else(|| Error::Internal("state size overflows".into()))?;
    let raw_len = whole - first * shape.page_elems() * ELEMENT;
    let planes = match shape.kv {
        KvType::F32 => ELEMENT,
        // The planes of an f24 lie apart already.
        KvType::F24 | KvType::F16 => 2,
        KvType::Q8_0 => 1,
    };
    let packed = match parts.compress {
        true => {
            let mut raw = reserved(raw_len)?;
            push_pages(&mut raw, shape, parts.image, first)?;
            pack::pack(&raw, planes)?
        }
        false => None,
    };
    let meta = Meta {
        fingerprint: parts.identity.fingerprint,
        exactness_class: parts.identity.exactness_class.clone(),
        layers: layers_of(shape),
        page_tokens: PAGE_TOKENS as u32,
        filled: parts.image.len as u32,
        capacity: parts.capacity as u64,
        kv: shape.kv,
        packed: packed.as_ref().map(|_| Packed { codec: pack::CODEC.into(), planes: planes as u32 }),
        parent,
        adapters: parts.identity.adapters.clone(),
    };
    let first_version =
        meta.packed.is_none() && meta.parent.is_none() && meta.adapters.is_empty() && is_default(&meta.kv);
    let version = if first_version { 1 } else { VERSION };
    let meta = serde_json::to_vec(&meta).map_err(|e| Error::Internal(format!("checkpoint metadata: {e}")))?;
    let resume = parts.resume.unwrap_or_default();
    let kv = packed.as_ref().map_or(raw_len, Vec::len);
    let lengths = [meta.len(), parts.tokens.len() * 4, kv, parts.image.windows.len() * ELEMENT, resume.len()];

    let total = HEADER + lengths.iter().sum::<usize>();
    let mut out = reserved(total)?;
    out.resize(HEADER, 0);
    out.extend_from_slice(&meta);
    out.extend(parts.tokens.iter().flat_map(|t| t.to_le_bytes()));
    match packed {
        Some(packed) => out.extend_from_slice(&packed),
        None => push_pages(&mut out, shape, parts.image, first)?,
    }
    push_floats(&mut out, &parts.image.windows);
    out.extend_from_slice(resume);
    if out.len() != total {
        return Err(Error::Internal(format!("checkpoint has {} bytes, not {total}", out.len())));
    }
    write_header(&mut out, version, &lengths);
    Ok(out)
}

fn reserved(bytes: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    out.try_reserve_exact(bytes)
        .map_err(|_| Error::OutOfMemory { wanted: bytes as u64, what: "checkpoint bytes".into() })?;
    Ok(out)
}

/// The pages from `first` on: whole ones, then the rows in use of the last.
fn push_pages(out: &mut Vec<u8>, shape: &StateShape, image: &StateImage, first: usize) -> Result<()> {
    for page in image.pages.iter().take(image.len / PAGE_TOKENS).skip(first) {
        push_floats(out, page);
    }
    if image.len % PAGE_TOKENS != 0 {
        let page = image.pages.last().ok_or_else(|| Error::Internal("a page is missing".into()))?;
        let mut whole = reserved(page.len() * ELEMENT)?;
        push_floats(&mut whole, page);
        for run in shape.used_bytes(image.len % PAGE_TOKENS) {
            out.extend_from_slice(&whole[run]);
        }
    }
    Ok(())
}

fn write_header(out: &mut [u8], version: u32, lengths: &[usize; 5]) {
    let (header, body) = out.split_at_mut(HEADER);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
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

/// The checkpoint in `bytes`; of a delta, with the pages of `parent`.
pub(super) fn decode(bytes: &[u8], parent: Option<&StateImage>) -> Result<Checkpoint> {
    let File { meta, shape, tokens, kv, windows, resume, .. } = read_file(bytes)?;
    let shared = match (&meta.parent, parent) {
        (None, _) => &[],
        (Some(wanted), Some(parent)) => delta::take(wanted, parent)?,
        (Some(_), None) => {
            return Err(Error::Incompatible {
                what: "checkpoint".into(),
                expected: "a whole one".into(),
                found: "a delta, which is read together with its parent".into(),
            })
        }
    };
    let unpacked;
    let kv = match &meta.packed {
        Some(packed) => {
            let len = raw_kv_bytes(&meta, &shape).unwrap_or(usize::MAX);
            unpacked = pack::unpack(kv, packed.planes as usize, len)?;
            &unpacked
        }
        None => kv,
    };
    let resume = (!resume.is_empty()).then(|| resume.to_vec());
    let image = decode_image(&shape, meta.filled as usize, shared, kv, windows)?;
    let tokens = tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let identity = Identity {
        fingerprint: meta.fingerprint,
        exactness_class: meta.exactness_class,
        shape,
        adapters: meta.adapters,
    };
    Ok(Checkpoint::host(
        identity,
        tokens,
        usize::try_from(meta.capacity).unwrap_or(usize::MAX),
        resume,
        image,
    ))
}

/// A file whose checksums, lengths and numbers agree.
struct File<'a> {
    version: u32,
    meta: Meta,
    shape: StateShape,
    tokens: &'a [u8],
    kv: &'a [u8],
    windows: &'a [u8],
    resume: &'a [u8],
}

fn read_file(bytes: &[u8]) -> Result<File<'_>> {
    let (version, [meta, tokens, kv, windows, resume]) = sections(bytes)?;
    let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
    let meta: Meta = serde_json::from_slice(meta).map_err(|e| bad("META", e.to_string()))?;
    if meta.page_tokens as usize != PAGE_TOKENS {
        return Err(bad("META", format!("pages of {} tokens, not {PAGE_TOKENS}", meta.page_tokens)));
    }
    let shape = shape_of(&meta.layers, meta.kv)
        .ok_or_else(|| bad("META", "the state's shape is impossible".into()))?;
    let filled = meta.filled as usize;
    if tokens.len() % 4 != 0 || filled > tokens.len() / 4 {
        return Err(bad("TOKS", format!("{} bytes for {filled} filled tokens", tokens.len())));
    }
    let wanted = raw_kv_bytes(&meta, &shape);
    match &meta.packed {
        Some(packed) if packed.codec != pack::CODEC => {
            return Err(bad("META", format!("compressed by {:?}, which is not known", packed.codec)))
        }
        Some(_) if wanted.is_none() => return Err(bad("META", "the state's size is impossible".into())),
        Some(_) => {}
        None if wanted != Some(kv.len()) => {
            return Err(bad("KV", format!("{} bytes, expected {wanted:?}", kv.len())))
        }
        None => {}
    }
    if shape.window_elems.checked_mul(ELEMENT) != Some(windows.len()) {
        return Err(bad("WIND", format!("{} bytes for {} elements", windows.len(), shape.window_elems)));
    }
    Ok(File { version, meta, shape, tokens, kv, windows, resume })
}

/// Bytes of the `KV  ` section before compression; `None` where the numbers are impossible.
fn raw_kv_bytes(meta: &Meta, shape: &StateShape) -> Option<usize> {
    let (filled, shared) = (meta.filled as usize, meta.parent.as_ref().map_or(0, |p| p.pages as usize));
    let whole = kv_bytes(shape, filled)?;
    let elements = shape.kv_elems.checked_add(shape.window_elems)?;
    let theirs = shared.checked_mul(elements)?.checked_mul(ELEMENT)?;
    (shared <= filled / PAGE_TOKENS).then(|| whole.checked_sub(theirs)).flatten()
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

/// Checks every byte of a checkpoint and says what is in it; of a delta, without its parent.
pub(super) fn inspect(bytes: &[u8]) -> Result<CheckpointFile> {
    let file = read_file(bytes)?;
    let attention = file.shape.layers.iter().filter(|l| matches!(l, LayerState::Kv { .. })).count();
    Ok(CheckpointFile {
        version: file.version,
        file_bytes: bytes.len() as u64,
        stored_state_bytes: (file.kv.len() + file.windows.len()) as u64,
        compression: file.meta.packed.as_ref().map(|p| p.codec.clone()),
        parent_pages: file.meta.parent.as_ref().map(|p| p.pages),
        page_tokens: file.meta.page_tokens,
        attention_layers: attention,
        window_layers: file.shape.layers.len() - attention,
        capacity: file.meta.capacity,
        info: CheckpointInfo {
            fingerprint: file.meta.fingerprint,
            exactness_class: file.meta.exactness_class,
            tokens: file.tokens.len() / 4,
            filled: file.meta.filled as usize,
            in_value: !file.resume.is_empty(),
            state_bytes: state_bytes(&file.shape, file.meta.filled as usize),
            adapters: file.meta.adapters,
        },
    })
}

fn decode_image(
    shape: &StateShape,
    len: usize,
    shared: &[Arc<[f32]>],
    kv: &[u8],
    windows: &[u8],
) -> Result<StateImage> {
    let page_elems = shape.page_elems();
    if shared.iter().any(|page| page.len() != page_elems) {
        return Err(Error::bad_checkpoint("META", "its parent's pages have another size"));
    }
    let mut pages: Vec<Arc<[f32]>> = shared.to_vec();
    let (full, partial) = kv.split_at((len / PAGE_TOKENS - shared.len()) * page_elems * ELEMENT);
    // Without a whole page nothing has bounded its size yet.
    for bytes in full.chunks_exact(page_elems.saturating_mul(ELEMENT).max(1)) {
        let mut page = try_zeroed(page_elems, "checkpoint page")?;
        read_floats(&mut page, bytes);
        pages.push(page.into());
    }
    if len % PAGE_TOKENS != 0 {
        let mut whole: Vec<u8> = try_zeroed(page_elems.saturating_mul(ELEMENT), "checkpoint page")?;
        let mut rest = partial;
        for run in shape.used_bytes(len % PAGE_TOKENS) {
            let (bytes, after) = rest.split_at(run.len());
            whole[run].copy_from_slice(bytes);
            rest = after;
        }
        let mut page: Vec<f32> = try_zeroed(page_elems, "checkpoint page")?;
        read_floats(&mut page, &whole);
        pages.push(page.into());
    }
    let mut current = try_zeroed(shape.window_elems, "convolution windows")?;
    read_floats(&mut current, windows);
    Ok(StateImage { len, pages, windows: current })
}

/// Splits and verifies the file: every byte is covered by the header's or a section's checksum.
fn sections(bytes: &[u8]) -> Result<(u32, [&[u8]; 5])> {
    let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
    if bytes.len() < 8 || bytes[..8] != MAGIC {
        return Err(bad("magic", "this is not a lean checkpoint".into()));
    }
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes.len() < HEADER {
        return Err(bad("header", format!("{} bytes, the header alone has {HEADER}", bytes.len())));
    }
    let version = u32_at(8);
    if !(1..=VERSION).contains(&version) {
        return Err(Error::Incompatible {
            what: "checkpoint format version".into(),
            expected: format!("1 to {VERSION}"),
            found: version.to_string(),
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
    Ok((version, out))
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
        write_header(&mut out, 1, &[meta.len(), 4, 0, 0, 0]);
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
            match decode(&forged(&layers, filled), None) {
                Err(Error::BadCheckpoint { .. }) => {}
                other => panic!("{layers}: {other:?}"),
            }
        }
        // Without tokens no page is there, however large it would be.
        assert!(decode(&forged(&format!("[[0,{half},{}]]", 1 << 26), 0), None).is_ok());
    }
}
