//! Standard output, where a full disk is an error and not a panic.

use lean_engine::{Error, Result};
use std::fmt::Display;
use std::io::Write;

/// Writes `text` and flushes, so that a reader sees it now.
pub fn text(text: impl Display) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|e| Error::io("standard output", e))
}

/// Writes a line.
pub fn line(line: impl Display) -> Result<()> {
    text(format_args!("{line}\n"))
}
