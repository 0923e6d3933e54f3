//! Checkpoint files: written whole or not at all.

pub(crate) use lean_engine::files::write_atomically;
use lean_engine::{files, Error, Result};
use std::path::Path;

/// Bytes of a checkpoint, from a file or through the wire. Far above any state that this engine makes; it
/// bounds what a wrong path or a wrong host can make us allocate.
pub(crate) const CHECKPOINT_BYTES_MAX: u64 = 8 << 30;

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    files::read(path, CHECKPOINT_BYTES_MAX)
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
    use std::fs;

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
