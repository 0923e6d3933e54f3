//! GGUF files: bytes, map or reader to metadata and tensor views, and back to bytes.
//!
//! The reader is total: any input gives a [`Gguf`] or an error that names the field and its byte offset.
//! Every count, length, offset, alignment, dimension and type is checked against the file's size before
//! anything is allocated. The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod cursor;
mod fingerprint;
#[cfg(test)]
pub(crate) mod forge;
mod metadata;
#[cfg(not(target_arch = "wasm32"))]
mod native;
mod source;
mod tensors;
#[cfg(test)]
mod tests;
mod types;
#[cfg(target_arch = "wasm32")]
mod wasm;
mod writer;
#[cfg(test)]
mod writer_tests;

#[cfg(not(target_arch = "wasm32"))]
use native::open;
#[cfg(target_arch = "wasm32")]
use wasm::open;

pub use crate::files::NewFile;
pub use metadata::{Metadata, Value, ValueType};
pub use tensors::TensorInfo;
pub use types::type_name;
pub use writer::{TensorWriter, Writer, ALIGNMENT};

use crate::error::{try_zeroed, Error, Result};
pub(crate) use cursor::shown;
use cursor::Cursor;
use indexmap::IndexMap;
use source::Source;
use std::borrow::Cow;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Anything a model can be read from.
pub trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// An open model file.
pub struct Gguf {
    /// 2 or 3.
    pub version: u32,
    /// Key-value section.
    pub metadata: Metadata,
    /// Tensor table, in file order, by name.
    pub tensors: IndexMap<String, TensorInfo>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes before the padding that precedes the tensor data.
    header_bytes: u64,
    /// Where the type and value of each pair lie, in the order of `metadata.pairs`.
    pair_ranges: Vec<Range<u64>>,
    source: Source,
}

impl Gguf {
    /// Opens a file. With `mmap` the caller promises that nobody truncates it meanwhile: the operating system
    /// kills a process that reads beyond the new end.
    /// # Errors
    /// [`Error::ModelIo`] when the file cannot be read, otherwise as [`Gguf::from_bytes`].
    pub fn open(path: &Path, mmap: bool) -> Result<Self> {
        Self::from_source(open(path, mmap)?)
    }

    /// From bytes in memory.
    /// # Errors
    /// [`Error::BadModel`] for what is damaged or malformed, [`Error::UnsupportedModel`] for another version
    /// or byte order.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<Self> {
        Self::from_source(Source::memory(bytes))
    }

    /// From any reader; nothing but the header is read before a tensor is asked for.
    /// # Errors
    /// [`Error::ModelIo`] when reading fails, otherwise as [`Gguf::from_bytes`].
    pub fn from_reader(reader: Box<dyn ReadSeek>) -> Result<Self> {
        Self::from_source(Source::reader(reader, "from a reader".into())?)
    }

    fn from_source(source: Source) -> Result<Self> {
        let file_bytes = source.len();
        let mut c = Cursor::new(&source);
        let version = read_version(&mut c)?;
        let tensor_count = c.u64("tensor count")?;
        let pair_count = c.u64("metadata count")?;
        let (metadata, pair_ranges) = metadata::read(&mut c, pair_count)?;
        let alignment = tensors::alignment(&metadata)?;
        let tensors = tensors::read(&mut c, tensor_count, alignment, file_bytes)?;
        let header_bytes = c.pos();
        Ok(Gguf { version, metadata, tensors, file_bytes, header_bytes, pair_ranges, source })
    }

    /// A tensor's entry in the table.
    /// # Errors
    /// [`Error::BadModel`] when there is none of that name.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo> {
        let missing = || Error::bad_model(format_args!("tensor {}", shown(name)), "missing from the file");
        self.tensors.get(name).ok_or_else(missing)
    }

    /// The bytes of one tensor; borrowed from a map or from memory, read into a fresh buffer otherwise.
    /// # Errors
    /// [`Error::BadModel`] when there is none of that name, [`Error::UnsupportedModel`] when its type's size is
    /// not known, [`Error::ModelIo`] when reading fails.
    pub fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        let info = self.tensor(name)?;
        let what = format!("tensor {}", shown(name));
        if info.bytes == 0 {
            return Err(Error::unsupported(what, format_args!("{} has no known size", info.type_name())));
        }
        let too_large = || Error::OutOfMemory { wanted: info.bytes, what: what.clone() };
        let len = usize::try_from(info.bytes).map_err(|_| too_large())?;
        if let Some(bytes) = self.source.as_slice() {
            // The table's check has seen that the range lies in the file, hence in the address space.
            let at = info.offset as usize;
            return Ok(Cow::Borrowed(&bytes[at..at + len]));
        }
        let mut out = try_zeroed::<u8>(len, &what)?;
        self.source.read_at(info.offset, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Fills `out` with a part of one tensor's bytes, from byte `at` of the tensor on: for tensors larger than what
    /// a caller wants to hold.
    /// # Errors
    /// [`Error::BadModel`] when there is no such tensor, [`Error::InvalidArgument`] when the part does not lie in it,
    /// [`Error::ModelIo`] when reading fails.
    pub fn read_part(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        let info = self.tensor(name)?;
        if at.checked_add(out.len() as u64).is_none_or(|end| end > info.bytes) {
            let reason = format!("{} bytes from {at} on are not within its {}", out.len(), info.bytes);
            return Err(Error::invalid(format_args!("tensor {}", shown(name)), reason));
        }
        self.source.read_at(info.offset + at, out)
    }

    /// The type number and value of a metadata pair, as the file has them.
    fn pair_bytes(&self, key: &str) -> Result<Vec<u8>> {
        let what = format!("metadata {}", shown(key));
        let missing = || Error::bad_model(&what, "missing from the file");
        let range = &self.pair_ranges[self.metadata.pairs.get_index_of(key).ok_or_else(missing)?];
        let mut out = try_zeroed::<u8>((range.end - range.start) as usize, &what)?;
        self.source.read_at(range.start, &mut out)?;
        Ok(out)
    }

    /// Content-derived identity, cheap: the metadata and tensor table and samples of every tensor. The same
    /// for the same bytes whatever they are read from.
    /// # Errors
    /// [`Error::ModelIo`] when reading fails.
    pub fn fingerprint(&self) -> Result<u64> {
        fingerprint::fingerprint(&self.source, self.header_bytes, self.tensors.values())
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gguf")
            .field("version", &self.version)
            .field("pairs", &self.metadata.pairs.len())
            .field("tensors", &self.tensors.len())
            .field("file_bytes", &self.file_bytes)
            .finish_non_exhaustive()
    }
}

/// Magic and version, with a plain word for the files that people confuse with GGUF.
fn read_version(c: &mut Cursor<'_>) -> Result<u32> {
    if c.remaining() == 0 {
        return Err(c.bad("magic", "the file is empty"));
    }
    let magic: [u8; 4] = c.array("magic")?;
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return Err(big_endian()),
        b"lmgg" | b"fmgg" | b"tjgg" | b"algg" => {
            return Err(Error::unsupported(
                "magic at byte 0",
                "a model from before GGUF; convert it anew to GGUF",
            ))
        }
        b"vers" => {
            return Err(cursor::bad_at(
                "magic",
                0,
                "this is a Git LFS pointer, not the model; fetch the file itself",
            ))
        }
        other => {
            let found = other.escape_ascii();
            return Err(cursor::bad_at(
                "magic",
                0,
                format_args!("found \"{found}\", expected \"GGUF\"; is it a .gguf file?"),
            ));
        }
    }
    let version = c.u32("version")?;
    match version {
        2 | 3 => Ok(version),
        v if v.swap_bytes() <= 0xffff => Err(big_endian()),
        v => Err(Error::unsupported(
            "version at byte 4",
            format_args!("GGUF version {v}; versions 2 and 3 are read"),
        )),
    }
}

fn big_endian() -> Error {
    Error::unsupported("byte order", "a big-endian GGUF file; only little-endian ones are read")
}
