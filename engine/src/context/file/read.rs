//! Reading a checkpoint: in one go from the file into the pages, each section checked before it is used.

use super::table::{Section, Table, HEADER};
use super::*;
use crate::context::checkpoint::Checkpoint;
use crate::context::delta;
use crate::error::{try_zeroed, try_zeroed_shared};
use std::hash::Hasher;
use std::io::Read;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Read at a time where the bytes themselves are not kept.
const CHUNK: usize = 1 << 20;

/// Where the bytes come from.
pub(in crate::context) struct Input<'a> {
    pub from: &'a mut dyn Read,
    /// How many there are. What is allocated is bounded by it.
    pub total: u64,
    /// The error of a read that fails.
    pub failed: &'a dyn Fn(std::io::Error) -> Error,
}

/// The checkpoint in `input`; of a delta, with the pages of `parent`.
pub(in crate::context) fn decode(input: Input<'_>, parent: Option<&StateImage>) -> Result<Checkpoint> {
    let mut file = File::open(input)?;
    let shared = match (&file.meta.parent, parent) {
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
    if shared.iter().any(|page| page.len() != file.shape.page_elems()) {
        return Err(Error::bad_checkpoint("META", "its parent's pages have another size"));
    }
    let pages = file.pages(shared)?;
    let windows = file.section(Section::Windows)?;
    let mut current = try_zeroed(file.shape.window_elems, "convolution windows")?;
    read_floats(&mut current, &windows);
    let resume = Some(file.section(Section::Value)?).filter(|r| !r.is_empty());
    let File { meta, shape, tokens, .. } = file;
    let image = StateImage { len: meta.filled as usize, pages, windows: current };
    let tokens = tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let identity = Identity {
        fingerprint: meta.fingerprint,
        exactness_class: meta.exactness_class,
        shape,
        adapters: meta.adapters,
    };
    let capacity = usize::try_from(meta.capacity).unwrap_or(usize::MAX);
    Ok(Checkpoint::host(identity, tokens, capacity, resume, image))
}

/// Checks every byte and says what is in it; of a delta, without its parent.
pub(in crate::context) fn inspect(input: Input<'_>) -> Result<CheckpointFile> {
    let file_bytes = input.total;
    let mut file = File::open(input)?;
    for section in [Section::Kv, Section::Windows, Section::Value] {
        file.skip(section)?;
    }
    let File { meta, shape, tokens, table, .. } = file;
    let attention = shape.layers.iter().filter(|l| matches!(l, LayerState::Kv { .. })).count();
    Ok(CheckpointFile {
        version: table.version,
        file_bytes,
        stored_state_bytes: (table.len(Section::Kv) + table.len(Section::Windows)) as u64,
        compression: meta.packed.as_ref().map(|p| p.codec.clone()),
        parent_pages: meta.parent.as_ref().map(|p| p.pages),
        page_tokens: meta.page_tokens,
        attention_layers: attention,
        window_layers: shape.layers.len() - attention,
        capacity: meta.capacity,
        info: CheckpointInfo {
            fingerprint: meta.fingerprint,
            exactness_class: meta.exactness_class,
            tokens: tokens.len() / 4,
            filled: meta.filled as usize,
            in_value: table.len(Section::Value) > 0,
            state_bytes: state_bytes(&shape, meta.filled as usize),
            adapters: meta.adapters,
        },
    })
}

/// A file whose lengths and numbers agree, read up to its state.
struct File<'a> {
    input: Input<'a>,
    table: Table,
    meta: Meta,
    shape: StateShape,
    tokens: Vec<u8>,
}

impl<'a> File<'a> {
    fn open(mut input: Input<'a>) -> Result<Self> {
        let mut head: Vec<u8> = try_zeroed(input.total.min(HEADER as u64) as usize, "checkpoint header")?;
        input.exact(&mut head)?;
        let table = Table::parse(&head, input.total)?;
        let bad = |what: &str, reason: String| Error::bad_checkpoint(what, reason);
        let meta = input.section(&table, Section::Meta)?;
        let meta: Meta = serde_json::from_slice(&meta).map_err(|e| bad("META", e.to_string()))?;
        let shape = meta.check(&table)?;
        let tokens = input.section(&table, Section::Tokens)?;
        Ok(File { input, table, meta, shape, tokens })
    }

    fn section(&mut self, section: Section) -> Result<Vec<u8>> {
        self.input.section(&self.table, section)
    }

    /// Checks a section whose content is not wanted.
    fn skip(&mut self, section: Section) -> Result<()> {
        let mut rest = self.table.len(section);
        let (mut hasher, mut buffer) = (XxHash3_64::new(), vec![0; rest.min(CHUNK)]);
        while rest > 0 {
            let chunk = &mut buffer[..rest.min(CHUNK)];
            self.input.exact(chunk)?;
            hasher.write(chunk);
            rest -= chunk.len();
        }
        self.table.check(section, &hasher)
    }

    /// The pages: those of the parent, then the file's.
    fn pages(&mut self, shared: &[Arc<[f32]>]) -> Result<Vec<Arc<[f32]>>> {
        let mut pages = shared.to_vec();
        let filled = self.meta.filled as usize;
        if let Some(packed) = &self.meta.packed {
            let len = self.meta.raw_kv_bytes(&self.shape).unwrap_or(usize::MAX);
            let planes = packed.planes as usize;
            let kv = pack::unpack(&self.input.section(&self.table, Section::Kv)?, planes, len)?;
            let mut left = kv.as_slice();
            read_pages(&self.shape, filled, &mut pages, &mut |to| {
                let (bytes, rest) = left.split_at(to.len());
                to.copy_from_slice(bytes);
                left = rest;
                Ok(())
            })?;
        } else {
            let (mut hasher, input) = (XxHash3_64::new(), &mut self.input);
            read_pages(&self.shape, filled, &mut pages, &mut |to| {
                input.exact(to)?;
                hasher.write(to);
                Ok(())
            })?;
            self.table.check(Section::Kv, &hasher)?;
        }
        Ok(pages)
    }
}

impl Input<'_> {
    fn exact(&mut self, to: &mut [u8]) -> Result<()> {
        self.from.read_exact(to).map_err(self.failed)
    }

    fn section(&mut self, table: &Table, section: Section) -> Result<Vec<u8>> {
        let mut bytes = try_zeroed(table.len(section), "checkpoint bytes")?;
        self.exact(&mut bytes)?;
        let mut hasher = XxHash3_64::new();
        hasher.write(&bytes);
        table.check(section, &hasher)?;
        Ok(bytes)
    }
}

/// Adds the pages of `filled` tokens that are not there yet: whole ones, then the rows in use of the last. `next`
/// gives the bytes one after the other.
fn read_pages(
    shape: &StateShape,
    filled: usize,
    pages: &mut Vec<Arc<[f32]>>,
    next: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<()> {
    // The file has the bytes of whole pages, and of each row of the last one: that bounds their size. Without a token
    // nothing does, and there is no page.
    while pages.len() < filled / PAGE_TOKENS {
        pages.push(new_page(shape, next)?);
    }
    let rows = filled % PAGE_TOKENS;
    if rows > 0 {
        let runs = shape.used_bytes(rows);
        let mut used: Vec<u8> = try_zeroed(runs.iter().map(|r| r.len()).sum(), "checkpoint page")?;
        next(&mut used)?;
        let mut left = used.as_slice();
        let last = new_page(shape, &mut |page| {
            for run in &runs {
                let (bytes, rest) = left.split_at(run.len());
                page[run.clone()].copy_from_slice(bytes);
                left = rest;
            }
            Ok(())
        })?;
        pages.push(last);
    }
    Ok(())
}

/// A page that `fill` makes from zeros, its bytes as they are in the file.
fn new_page(shape: &StateShape, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Arc<[f32]>> {
    let mut page: Arc<[f32]> = try_zeroed_shared(shape.page_elems(), "checkpoint page")?;
    let Some(own) = Arc::get_mut(&mut page) else {
        return Err(Error::Internal("a new page is shared".into()));
    };
    fill(bytemuck::cast_slice_mut(own))?;
    if cfg!(target_endian = "big") {
        own.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits().swap_bytes()));
    }
    Ok(page)
}

fn read_floats(to: &mut [f32], bytes: &[u8]) {
    for (x, b) in to.iter_mut().zip(bytes.chunks_exact(4)) {
        *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    }
}
