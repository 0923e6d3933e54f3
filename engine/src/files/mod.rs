//! Files by path: made whole or not at all, read within a bound.

#[cfg(not(target_arch = "wasm32"))]
mod leftovers;
#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(target_arch = "wasm32")]
mod wasm;

#[cfg(not(target_arch = "wasm32"))]
pub use native::*;
#[cfg(target_arch = "wasm32")]
pub use wasm::*;

use crate::error::Result;
use std::io::Write;
use std::path::Path;

/// Written between two reports of progress.
const CHUNK: usize = 4 << 20;

/// Makes a file of `bytes`; see [`NewFile`]. An old file is replaced only once the new one is on the disk, so that a
/// power cut cannot take both; where there is nothing to lose, nothing waits for the disk.
/// # Errors
/// [`crate::Error::Io`] that names `path`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with_progress(path, std::iter::once(bytes), bytes.len() as u64, &mut |_, _| {})
}

/// As [`write_atomically`], from pieces that are `total` bytes together; `progress` hears the bytes done and `total`.
/// # Errors
/// [`crate::Error::Io`] that names `path`.
pub fn write_with_progress<'a>(
    path: &Path,
    pieces: impl Iterator<Item = &'a [u8]>,
    total: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut file = NewFile::create(path)?;
    let mut done = 0;
    for chunk in pieces.flat_map(|piece| piece.chunks(CHUNK)) {
        file.write_all(chunk).map_err(|e| crate::Error::io(path, e))?;
        done += chunk.len() as u64;
        progress(done, total);
    }
    file.commit_unless_new()
}
