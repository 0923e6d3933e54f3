//! Linux: a pidfd becomes readable when its process ends. (PR_SET_PDEATHSIG would watch the thread that spawned us.)

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How a process can be watched.
pub enum Watch {
    /// Readable once it has ended.
    Descriptor(OwnedFd),
    /// There is no such process any more.
    Ended,
    /// The kernel is older than 5.3, or a sandbox forbids it.
    Unsupported,
}

/// Opens the process.
pub fn open(pid: u32) -> Result<Watch> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd >= 0 {
        // SAFETY: the descriptor was just made by the kernel for us and has no other owner.
        return Ok(Watch::Descriptor(unsafe { OwnedFd::from_raw_fd(fd as i32) }));
    }
    let e = Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::ESRCH) => Ok(Watch::Ended),
        Some(libc::ENOSYS | libc::EPERM | libc::EINVAL) => Ok(Watch::Unsupported),
        _ => Err(e),
    }
}

/// Blocks until the process has ended.
pub fn wait(fd: &OwnedFd) {
    loop {
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid pollfd for the duration of the call, and the descriptor is open.
        let n = unsafe { libc::poll(&mut poll, 1, -1) };
        if n > 0 {
            return;
        }
    }
}
