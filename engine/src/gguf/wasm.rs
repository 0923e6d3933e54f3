//! There are no files on this target.

use super::source::Source;
use crate::error::{Error, Result};
use std::path::Path;

/// Always an error that says what to use.
pub(super) fn open(path: &Path, _mmap: bool) -> Result<Source> {
    Err(Error::ModelIo {
        path: path.display().to_string(),
        reason: "files cannot be opened by path here; pass the model's bytes or a reader".into(),
    })
}

/// There is nowhere to make a file; write to bytes in memory instead.
pub enum NewFile {}

impl NewFile {
    /// Always an error.
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self> {
        Err(Error::Io { path: path.display().to_string(), reason: "there are no files here".into() })
    }

    /// Never called: no value exists.
    pub fn temporary(&self) -> &Path {
        match *self {}
    }

    /// Never called: no value exists.
    /// # Errors
    /// None.
    pub fn commit(self) -> Result<()> {
        match self {}
    }
}

impl std::io::Write for NewFile {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match *self {}
    }
}
