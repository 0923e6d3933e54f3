//! Files by path: opening, and making new ones whole or not at all.

use super::source::{io_error, Source};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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

/// A file that has another name until it is complete: readers and crashes see the old file or the new one, never a
/// part. What is dropped without [`NewFile::commit`] is removed.
pub struct NewFile {
    /// `None` once it is committed.
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins a file beside `path`.
    /// # Errors
    /// [`Error::Io`] that names `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::invalid("path", "names no file"))?;
        if path.is_dir() {
            return Err(Error::Io { path: path.display().to_string(), reason: "is a directory".into() });
        }
        let mut temporary = name.to_os_string();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let file = File::create(&temporary).map_err(|e| file_error(path, &e))?;
        let file = Some(BufWriter::with_capacity(1 << 20, file));
        Ok(NewFile { file, temporary, path: path.into() })
    }

    /// Where the file is until then, to look at what was written and flushed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Flushes to the disk and gives the file its name.
    /// # Errors
    /// [`Error::Io`] that names the file; nothing is left then.
    pub fn commit(mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let synced = file.into_inner().map_err(|e| e.into_error()).and_then(|file| file.sync_all());
        let done = synced.and_then(|()| fs::rename(&self.temporary, &self.path));
        done.map_err(|e| {
            // The error is what matters; a leftover that cannot be removed either changes nothing.
            let _ = fs::remove_file(&self.temporary);
            file_error(&self.path, &e)
        })
    }

    fn inner(&mut self) -> std::io::Result<&mut BufWriter<File>> {
        self.file.as_mut().ok_or_else(|| std::io::Error::other("the file is closed"))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.inner()?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner()?.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.inner()?.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn file_error(path: &Path, e: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), reason: e.to_string() }
}
