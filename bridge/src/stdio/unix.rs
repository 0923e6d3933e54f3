//! Unix: the streams move to private descriptors; 0 becomes /dev/null and 1 becomes stderr.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Lowest number for the private descriptors, clear of the three that everybody knows.
const FIRST_PRIVATE: RawFd = 3;

/// Takes both streams away from everybody else in this process and its children.
pub fn take() -> Result<(File, File)> {
    let input = private_copy(0)?;
    let output = private_copy(1)?;
    let null = File::open("/dev/null")?;
    replace(0, null.as_raw_fd())?;
    replace(1, 2)?;
    Ok((File::from(input), File::from(output)))
}

/// A duplicate with close-on-exec, so that no child keeps the pipe open.
fn private_copy(fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an int and touches no memory; a bad descriptor is an error.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_PRIVATE) };
    if copy < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: `copy` was just made by fcntl, is open, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes descriptor `to` (0 or 1) mean what `from` means.
fn replace(to: RawFd, from: RawFd) -> Result<()> {
    loop {
        // SAFETY: dup2 touches no memory. Descriptors 0 and 1 are owned by no Rust object: std's handles for
        // them do not close, and refer to the number, which stays open.
        if unsafe { libc::dup2(from, to) } >= 0 {
            return Ok(());
        }
        let e = Error::last_os_error();
        if e.kind() != std::io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Ctrl-C goes to the whole foreground group. What it means is the host's decision: it ends the bridge by closing.
pub fn ignore_interrupts() {
    // SAFETY: SIG_IGN installs no handler, so no code of ours runs in a signal context.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}
