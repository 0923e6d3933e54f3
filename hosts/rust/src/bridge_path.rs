//! Where the bridge is.

use crate::{Error, Result};
use std::env;
use std::path::{Path, PathBuf};

const BINARY: &str = if cfg!(windows) { "lean-bridge.exe" } else { "lean-bridge" };

/// The binary that [`crate::Engine::spawn`] starts: the one given, else the one that the environment variable LEAN_BRIDGE
/// names, else the one beside this program's executable, else lean-bridge on the PATH. If there is none, the error is
/// [`Error::BRIDGE_NOT_FOUND`] and says what to install.
pub fn find_bridge(given: Option<&Path>) -> Result<PathBuf> {
    let named = env::var_os("LEAN_BRIDGE").filter(|path| !path.is_empty()).map(PathBuf::from);
    for (path, source) in [(given, "SpawnOptions::bridge"), (named.as_deref(), "LEAN_BRIDGE")] {
        let Some(path) = path else { continue };
        if !path.is_file() {
            let message = format!("{source} names {}, where there is no file", path.display());
            return Err(Error::not_found(message));
        }
        return Ok(std::path::absolute(path).unwrap_or_else(|_| path.into()));
    }
    let beside = env::current_exe().map(|exe| exe.with_file_name(BINARY)).unwrap_or_else(|_| BINARY.into());
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut places = vec![beside.clone()];
    places.extend(env::split_paths(&folders).map(|folder| folder.join(BINARY)));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Error::not_found(format!(
            "no {BINARY} was found: not as {}, and not on the PATH. Build it with `cargo build --release -p lean-bridge`, and \
             put it there or set LEAN_BRIDGE to where it is.",
            beside.display()
        ))
    })
}
