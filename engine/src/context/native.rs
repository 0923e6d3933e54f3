//! Checkpoint files.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

fn io(path: &Path, e: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), reason: e.to_string() }
}

/// Writes beside `path` and renames, so that a crash leaves the old file or the new one, never a part.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    // Threads that write the same path at once each have a file of their own until they rename it.
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| Error::invalid("path", "names no file"))?;
    let mut temporary = name.to_os_string();
    temporary.push(format!(".{}.{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    let temporary = path.with_file_name(temporary);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        // The error is what matters; a leftover that cannot be removed either changes nothing.
        let _ = fs::remove_file(&temporary);
        io(path, &e)
    })
}

/// Reads a regular file; a device or a pipe might never end.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let meta = fs::metadata(path).map_err(|e| io(path, &e))?;
    if !meta.is_file() {
        return Err(Error::Io { path: path.display().to_string(), reason: "is not a regular file".into() });
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
