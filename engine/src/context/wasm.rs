//! There are no files on this target.

use crate::error::{Error, Result};
use std::path::Path;

fn no_files(path: &Path) -> Error {
    Error::Io {
        path: path.display().to_string(),
        reason: "there are no files here; use the checkpoint's bytes".into(),
    }
}

/// Always an error that says what to use.
pub fn write_atomically(path: &Path, _bytes: &[u8]) -> Result<()> {
    Err(no_files(path))
}

/// Always an error that says what to use.
pub fn write_with_progress(path: &Path, _bytes: &[u8], _progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    Err(no_files(path))
}

/// Always an error that says what to use.
pub fn check_target(path: &Path) -> Result<()> {
    Err(no_files(path))
}

/// Always an error that says what to use.
pub fn read(path: &Path, _max: u64) -> Result<Vec<u8>> {
    Err(no_files(path))
}
