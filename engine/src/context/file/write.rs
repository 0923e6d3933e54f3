//! A checkpoint's bytes, as pieces that lie where they already are: the pages are not copied to be written.

use super::table::{Section, Table, HEADER, VERSION};
use super::*;
use crate::context::delta;
use crate::error::try_reserved;
use std::borrow::Cow;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// What is allocated, in errors.
const BYTES: &str = "checkpoint bytes";

/// What is written.
pub(in crate::context) struct Parts<'a> {
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

/// A whole file in pieces.
pub(in crate::context) struct Encoded<'a> {
    head: [u8; HEADER],
    /// By section.
    pieces: [Vec<Cow<'a, [u8]>>; 5],
    total: usize,
}

impl<'a> Encoded<'a> {
    pub(in crate::context) fn new(parts: &Parts<'a>) -> Result<Self> {
        let shape = &parts.identity.shape;
        let parent =
            parts.parent.map(|parent| delta::shared(parts.image, parent)).filter(|shared| shared.pages > 0);
        let first = parent.as_ref().map_or(0, |shared| shared.pages as usize);
        let mut kv = pages(shape, parts.image, first)?;
        let planes = planes_of(shape.kv);
        let packed = if parts.compress { pack::pack(&concat(&kv)?, planes)? } else { None };
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
        let version = if meta.needs_only_version_1() { 1 } else { VERSION };
        let meta =
            serde_json::to_vec(&meta).map_err(|e| Error::Internal(format!("checkpoint metadata: {e}")))?;
        if let Some(packed) = packed {
            kv = vec![Cow::Owned(packed)];
        }
        let pieces = [
            vec![Cow::Owned(meta)],
            vec![Cow::Owned(parts.tokens.iter().flat_map(|t| t.to_le_bytes()).collect())],
            kv,
            vec![floats(&parts.image.windows)],
            vec![Cow::Borrowed(parts.resume.unwrap_or_default())],
        ];
        let table = Table { version, sections: pieces.each_ref().map(|p| measure(p)) };
        let total = HEADER + Section::ALL.iter().map(|s| table.len(*s)).sum::<usize>();
        Ok(Encoded { head: table.to_bytes(), pieces, total })
    }

    /// Bytes of the file.
    pub(in crate::context) fn len(&self) -> usize {
        self.total
    }

    /// The file, piece by piece.
    pub(in crate::context) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.head.as_slice()).chain(self.pieces.iter().flatten().map(|p| &**p))
    }

    pub(in crate::context) fn to_vec(&self) -> Result<Vec<u8>> {
        let mut out = try_reserved(self.total, BYTES)?;
        self.pieces().for_each(|piece| out.extend_from_slice(piece));
        Ok(out)
    }
}

/// Bytes of an element, each of which has a plane of its own when it is compressed.
fn planes_of(kv: KvType) -> usize {
    match kv {
        KvType::F32 => ELEMENT,
        // The planes of an f24 lie apart already.
        KvType::F24 | KvType::F16 => 2,
        KvType::Q8_0 => 1,
    }
}

/// Length and checksum of a section.
fn measure(pieces: &[Cow<'_, [u8]>]) -> (usize, u64) {
    let mut hasher = XxHash3_64::new();
    pieces.iter().for_each(|p| hasher.write(p));
    (pieces.iter().map(|p| p.len()).sum(), hasher.finish())
}

/// The pages from `first` on: whole ones, then the rows in use of the last.
fn pages<'a>(shape: &StateShape, image: &'a StateImage, first: usize) -> Result<Vec<Cow<'a, [u8]>>> {
    let whole = image.pages.iter().take(image.len / PAGE_TOKENS).skip(first);
    let mut out: Vec<Cow<'a, [u8]>> = whole.map(|page| floats(page)).collect();
    if image.len % PAGE_TOKENS != 0 {
        let page = image.pages.last().ok_or_else(|| Error::Internal("a page is missing".into()))?;
        let (page, runs) = (floats(page), shape.used_bytes(image.len % PAGE_TOKENS));
        let mut used = try_reserved(runs.iter().map(|r| r.len()).sum(), BYTES)?;
        runs.into_iter().for_each(|run| used.extend_from_slice(&page[run]));
        out.push(Cow::Owned(used));
    }
    Ok(out)
}

/// Floats as they are in the file.
fn floats(floats: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(floats))
    } else {
        Cow::Owned(floats.iter().flat_map(|x| x.to_le_bytes()).collect())
    }
}

fn concat(pieces: &[Cow<'_, [u8]>]) -> Result<Vec<u8>> {
    let mut out = try_reserved(pieces.iter().map(|p| p.len()).sum(), BYTES)?;
    pieces.iter().for_each(|p| out.extend_from_slice(p));
    Ok(out)
}
