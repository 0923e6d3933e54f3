//! Opening files by path.

use super::source::{io_error, Source};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::path::Path;

/// Opens a regular file, read or mapped.
pub(super) fn open(path: &Path, mmap: bool) -> Result<Source> {
    let label = path.display().to_string();
    let meta = fs::metadata(path).map_err(|e| io_error(&label, &e))?;
    if meta.is_dir() {
        return Err(Error::ModelIo {
            path: label,
            reason: "is a directory; give the path of a .gguf file in it".into(),
        });
    }
    if !meta.is_file() {
        // Opening a pipe would block until somebody writes to it.
        return Err(Error::ModelIo {
            path: label,
            reason: "is not a regular file; a model needs random access".into(),
        });
    }
    let file = File::open(path).map_err(|e| io_error(&label, &e))?;
    // An empty file cannot be mapped, and has no header to complain about otherwise.
    if mmap && meta.len() > 0 {
        return map(&file, label);
    }
    Source::reader(Box::new(file), label)
}

#[cfg(feature = "mmap")]
fn map(file: &File, label: String) -> Result<Source> {
    // SAFETY: the map is only read. That nobody truncates or rewrites the file while it is mapped is promised
    // by the caller of `Gguf::open(.., true)`, whose documentation says so.
    let map = unsafe { memmap2::Mmap::map(file) }.map_err(|e| io_error(&label, &e))?;
    Ok(Source::map(map, label))
}

#[cfg(not(feature = "mmap"))]
fn map(_file: &File, _label: String) -> Result<Source> {
    Err(Error::invalid("mmap", "this build has no feature `mmap`; load without it"))
}
