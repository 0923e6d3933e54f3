//! Files where there is a file system.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const BUFFER: usize = 1 << 20;

/// A file that has another name until it is complete: readers and dying processes see the old file or the new one,
/// never a part. Links are followed, permissions of an old file are kept, and what is no regular file is refused. What
/// is dropped without [`NewFile::commit`] is removed.
pub struct NewFile {
    /// `None` once it is committed.
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    path: PathBuf,
    replaces: bool,
}

impl NewFile {
    /// Begins a file beside `path`.
    /// # Errors
    /// [`Error::Io`] that names `path`.
    pub fn create(path: &Path) -> Result<Self> {
        // Threads that write the same path at once each have a file of their own until they rename it.
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let (path, old) = target(path)?;
        // Not made from the file's name, which may be as long as names can be.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        super::leftovers::sweep(&path);
        let temporary = path.with_file_name(super::leftovers::name(number));
        let file = File::options().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|e| Error::io(&path, e))?;
        let mut new = NewFile { file: None, temporary, path, replaces: old.is_some() };
        let permitted = match old {
            // Before the first byte: what only the owner may read never lies open.
            Some(permissions) => file.set_permissions(permissions),
            None => Ok(()),
        };
        new.file = Some(BufWriter::with_capacity(BUFFER, file));
        permitted.map_err(|e| Error::io(&new.path, e))?;
        Ok(new)
    }

    /// Where the file is until then, to look at what was written and flushed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Flushes to the disk and gives the file its name.
    /// # Errors
    /// [`Error::Io`] that names the file; nothing is left then.
    pub fn commit(self) -> Result<()> {
        self.finish(true)
    }

    /// The same, without waiting for the disk where there was no file before.
    pub(super) fn commit_unless_new(self) -> Result<()> {
        let replaces = self.replaces;
        self.finish(replaces)
    }

    fn finish(mut self, sync: bool) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let written = file.into_inner().map_err(|e| e.into_error());
        let synced = written.and_then(|file| if sync { file.sync_all() } else { Ok(()) });
        synced.and_then(|()| fs::rename(&self.temporary, &self.path)).map_err(|e| {
            // The error is what matters; a leftover that cannot be removed either changes nothing.
            let _ = fs::remove_file(&self.temporary);
            Error::io(&self.path, e)
        })?;
        if self.replaces {
            sync_folder(&self.path);
        }
        Ok(())
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

/// Whether a file could be written at `path`, as far as that shows beforehand: its folder is there, and what has the
/// name is a file. [`Error::Io`] names `path`.
pub fn check_target(path: &Path) -> Result<()> {
    let (path, _) = target(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let meta = fs::metadata(folder).map_err(|e| Error::io(&path, e))?;
    if !meta.is_dir() {
        return Err(Error::io(&path, format_args!("{} is not a folder", folder.display())));
    }
    Ok(())
}

/// The file that `path` means, links followed, and the permissions of what is there.
fn target(path: &Path) -> Result<(PathBuf, Option<fs::Permissions>)> {
    let refused = |reason: &str| Error::io(path, reason);
    if path.file_name().is_none() {
        return Err(refused("names no file"));
    }
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok((path.to_path_buf(), None)),
        Err(e) => Err(Error::io(path, e)),
        Ok(_) => {
            let real = fs::canonicalize(path).map_err(|e| Error::io(path, e))?;
            let meta = fs::metadata(&real).map_err(|e| Error::io(path, e))?;
            // A device or a pipe would be replaced by a file.
            if !meta.is_file() {
                return Err(refused("is not a regular file"));
            }
            Ok((real, Some(meta.permissions())))
        }
    }
}

/// Makes the rename itself durable. Best effort: not every file system can, and the content is safe already.
fn sync_folder(path: &Path) {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    };
    if cfg!(unix) {
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
    }
}

/// Opens a regular file of at most `max` bytes to read it whole, and says how many it has; a device or a pipe might
/// never end. [`Error::Io`] names `path`; a longer file is an [`Error::BadCheckpoint`].
pub fn open(path: &Path, max: u64) -> Result<(impl Read, u64)> {
    // Before it is opened: opening a pipe waits for its other end.
    let meta = fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !meta.is_file() {
        return Err(Error::io(path, "is not a regular file"));
    }
    if meta.len() > max {
        return Err(Error::bad_checkpoint(path.display(), format!("{} bytes are no checkpoint", meta.len())));
    }
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    Ok((file.take(meta.len()), meta.len()))
}

/// Reads a file that [`open`] opens.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>> {
    let (mut file, len) = open(path, max)?;
    let too_large = || Error::OutOfMemory { wanted: len, what: format!("the file {}", path.display()) };
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).map_err(|_| too_large())?).map_err(|_| too_large())?;
    file.read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
    Ok(bytes)
}
