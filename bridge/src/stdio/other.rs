//! Elsewhere: duplicated handles. What else prints on stdout is not kept apart here; hosts notice it, since the
//! stream then does not parse.

use std::fs::File;
use std::io::Result;

#[cfg(windows)]
/// Takes both streams.
pub fn take() -> Result<(File, File)> {
    use std::os::windows::io::AsHandle;
    let input = std::io::stdin().as_handle().try_clone_to_owned()?;
    let output = std::io::stdout().as_handle().try_clone_to_owned()?;
    Ok((File::from(input), File::from(output)))
}

#[cfg(not(windows))]
/// Takes both streams.
pub fn take() -> Result<(File, File)> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Nothing to ignore.
pub fn ignore_interrupts() {}
