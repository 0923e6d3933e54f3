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
