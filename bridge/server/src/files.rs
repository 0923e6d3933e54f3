//! Checkpoint files: written whole or not at all.

use lean_engine::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a checkpoint, from a file or through the wire. Far above any state that this engine makes; it
/// bounds what a wrong path or a wrong host can make us allocate.
pub(crate) const CHECKPOINT_BYTES_MAX: u64 = 8 << 30;

fn io(path: &Path, e: std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), reason: e.to_string() }
}

/// Writes beside the target, flushes to the disk, then renames: readers and crashes see the old file or the
/// new one, never a part.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| Error::invalid("path", "it names no file"))?.to_string_lossy();
    let unique = format!(".{name}.{}.{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let temporary = folder.join(unique);
    let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(e) = written {
        let _ = fs::remove_file(&temporary);
        return Err(io(path, e));
    }
    sync_folder(&folder);
    Ok(())
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the rename itself durable. Best effort: not every file system can, and the content is safe already.
fn sync_folder(folder: &Path) {
    if cfg!(unix) {
        if let Ok(f) = File::open(folder) {
            let _ = f.sync_all();
        }
    }
}

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| io(path, e))?;
    let meta = file.metadata().map_err(|e| io(path, e))?;
    if !meta.is_file() {
        return Err(Error::Io { path: path.display().to_string(), reason: "not a regular file".into() });
    }
    if meta.len() > CHECKPOINT_BYTES_MAX {
        return Err(Error::bad_checkpoint(path.display(), format!("{} bytes are no checkpoint", meta.len())));
    }
    let mut bytes = Vec::new();
    reserve(&mut bytes, meta.len() as usize)?;
    file.take(CHECKPOINT_BYTES_MAX).read_to_end(&mut bytes).map_err(|e| io(path, e))?;
    Ok(bytes)
}

/// Room for `more` bytes, or a typed error.
pub(crate) fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<()> {
    bytes
        .try_reserve(more)
        .map_err(|_| Error::OutOfMemory { wanted: more as u64, what: "a checkpoint".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_file_and_leaves_nothing_behind() {
        let dir = std::env::temp_dir().join(format!("lean-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.lean");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert_eq!(write_atomically(&dir.join("no/such/folder"), b"x").unwrap_err().name(), "io");
        assert_eq!(read(&dir).unwrap_err().name(), "io");
        fs::remove_dir_all(&dir).unwrap();
    }
}
