//! Checkpoint files: written whole or not at all, read within a bound.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

fn io(path: &Path, e: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), reason: e.to_string() }
}

/// Written between two reports of progress.
const CHUNK: usize = 4 << 20;

/// Writes beside `path`, then renames: readers and dying processes leave the old file or the new one, never a part.
/// An old file is replaced only once the new one is on the disk, so that a power cut cannot take both; where there
/// is nothing to lose, nothing waits for the disk. [`Error::Io`] names `path`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with_progress(path, bytes, &mut |_, _| {})
}

/// As [`write_atomically`]; `progress` hears the bytes done and their total.
pub fn write_with_progress(path: &Path, bytes: &[u8], progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    // Threads that write the same path at once each have a file of their own until they rename it.
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let (path, old) = target(path)?;
    // Not made from the file's name, which may be as long as names can be.
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_file_name(format!(".lean-{}-{number}.tmp", std::process::id()));
    let written = write_new(&temporary, bytes, old.as_ref(), progress);
    written.and_then(|()| fs::rename(&temporary, &path)).map_err(|e| {
        // The error is what matters; a leftover that cannot be removed either changes nothing.
        let _ = fs::remove_file(&temporary);
        io(&path, &e)
    })?;
    if old.is_some() {
        sync_folder(&path);
    }
    Ok(())
}

/// Whether a file could be written at `path`, as far as that shows beforehand: its folder is there, and what has the
/// name is a file. [`Error::Io`] names `path`.
pub fn check_target(path: &Path) -> Result<()> {
    let (path, _) = target(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let meta = fs::metadata(folder).map_err(|e| io(&path, &e))?;
    if !meta.is_dir() {
        let reason = format!("{} is not a folder", folder.display());
        return Err(Error::Io { path: path.display().to_string(), reason });
    }
    Ok(())
}

/// The file that `path` means, links followed, and the permissions of what is there.
fn target(path: &Path) -> Result<(PathBuf, Option<fs::Permissions>)> {
    let refused = |reason: &str| Error::Io { path: path.display().to_string(), reason: reason.into() };
    if path.file_name().is_none() {
        return Err(refused("names no file"));
    }
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok((path.to_path_buf(), None)),
        Err(e) => Err(io(path, &e)),
        Ok(_) => {
            let real = fs::canonicalize(path).map_err(|e| io(path, &e))?;
            let meta = fs::metadata(&real).map_err(|e| io(path, &e))?;
            // A device or a pipe would be replaced by a file.
            if !meta.is_file() {
                return Err(refused("is not a regular file"));
            }
            Ok((real, Some(meta.permissions())))
        }
    }
}

fn write_new(
    path: &Path,
    bytes: &[u8],
    old: Option<&fs::Permissions>,
    progress: &mut dyn FnMut(u64, u64),
) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    if let Some(permissions) = old {
        // Before the first byte: what only the owner may read never lies open.
        file.set_permissions(permissions.clone())?;
    }
    let mut done = 0;
    for chunk in bytes.chunks(CHUNK) {
        file.write_all(chunk)?;
        done += chunk.len() as u64;
        progress(done, bytes.len() as u64);
    }
    if old.is_some() {
        file.sync_all()?;
    }
    Ok(())
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

/// Reads a regular file of at most `max` bytes; a device or a pipe might never end. [`Error::Io`] names
/// `path`; a longer file is an [`Error::BadCheckpoint`].
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for its other end.
    let meta = fs::metadata(path).map_err(|e| io(path, &e))?;
    if !meta.is_file() {
        return Err(Error::Io { path: path.display().to_string(), reason: "is not a regular file".into() });
    }
    if meta.len() > max {
        return Err(Error::bad_checkpoint(path.display(), format!("{} bytes are no checkpoint", meta.len())));
    }
    let too_large =
        || Error::OutOfMemory { wanted: meta.len(), what: format!("the file {}", path.display()) };
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(meta.len()).map_err(|_| too_large())?)
        .map_err(|_| too_large())?;
    let file = File::open(path).map_err(|e| io(path, &e))?;
    file.take(meta.len()).read_to_end(&mut bytes).map_err(|e| io(path, &e))?;
    Ok(bytes)
}
