//! There are no files on this target: use bytes in memory instead.

use crate::error::{Error, Result};
use std::path::Path;

fn no_files(path: &Path) -> Error {
    Error::io(path, "there are no files here; use bytes in memory")
}

/// There is nowhere to make a file.
pub enum NewFile {}

impl NewFile {
    /// Always an error that says what to use.
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self> {
        Err(no_files(path))
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

    pub(super) fn commit_unless_new(self) -> Result<()> {
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

/// Always an error that says what to use.
pub fn check_target(path: &Path) -> Result<()> {
    Err(no_files(path))
}

/// Always an error that says what to use.
pub fn read(path: &Path, _max: u64) -> Result<Vec<u8>> {
    Err(no_files(path))
}

/// Always an error that says what to use.
pub fn open(path: &Path, _max: u64) -> Result<(std::io::Empty, u64)> {
    Err(no_files(path))
}
