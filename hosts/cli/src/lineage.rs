//! A checkpoint file with the files that it builds on.

use crate::paths::same_file;
use lean_engine::{Checkpoint, Error, Result};
use std::path::{Path, PathBuf};

/// What `--parent` says in `--help`.
pub const PARENT: &str =
    "The checkpoint that the file is a delta of; where that is a delta too, name those it builds on first, \
     the whole one before all";

/// The checkpoint in `path`; of a delta, with `parents`, of which the first is whole and each other one a delta of the
/// one before it.
pub fn load(path: &Path, parents: &[PathBuf]) -> Result<Checkpoint> {
    let Some((parent, before)) = parents.split_last() else {
        return Checkpoint::load(path).map_err(|e| wants_parent(path, e));
    };
    match Checkpoint::load(path) {
        Ok(_) => Err(Error::invalid(
            "--parent",
            format!("{} holds its whole state and needs no parent", path.display()),
        )),
        Err(Error::Incompatible { .. }) => {
            Checkpoint::load_delta(path, &load(parent, before)?).map_err(|e| e.of_file(path))
        }
        Err(e) => Err(e.of_file(path)),
    }
}

/// A delta is worth nothing without what it builds on, so it may not replace that.
pub fn check_delta_target(out: &Path, checkpoint: &Path, parents: &[PathBuf]) -> Result<()> {
    let needed = std::iter::once(checkpoint).chain(parents.iter().map(PathBuf::as_path));
    match needed.into_iter().find(|path| same_file(path, out)) {
        Some(path) => Err(Error::invalid(
            "--save-checkpoint",
            format!(
                "{} is what the delta builds on; name another file, or leave out --delta",
                path.display()
            ),
        )),
        None => Ok(()),
    }
}

/// What to do about a delta that was named alone.
fn wants_parent(path: &Path, error: Error) -> Error {
    match error {
        Error::Incompatible { .. } => Error::invalid(
            "--parent",
            format!("{} is a delta: name the checkpoint that it belongs to", path.display()),
        ),
        other => other.of_file(path),
    }
}
