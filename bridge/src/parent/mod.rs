//! Ends with a given process, even if its end of our stdin lives on in another process.

use std::io::Result;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod polling;

/// Calls `ended` on a thread of its own once the process `pid` has ended (at once if there is none).
#[cfg(target_os = "linux")]
pub fn on_exit(pid: u32, ended: impl FnOnce() + Send + 'static) -> Result<()> {
    match linux::open(pid)? {
        linux::Watch::Descriptor(fd) => spawn(move || linux::wait(&fd), ended),
        linux::Watch::Ended => spawn(|| {}, ended),
        linux::Watch::Unsupported => spawn(move || polling::wait(pid), ended),
    }
}

/// Calls `ended` on a thread of its own once the process `pid` has ended (at once if there is none).
#[cfg(all(unix, not(target_os = "linux")))]
pub fn on_exit(pid: u32, ended: impl FnOnce() + Send + 'static) -> Result<()> {
    spawn(move || polling::wait(pid), ended)
}

/// Not possible here yet: only the end of stdin is watched.
#[cfg(not(unix))]
pub fn on_exit(_pid: u32, _ended: impl FnOnce() + Send + 'static) -> Result<()> {
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "--parent-pid does not work on this platform yet",
    ))
}

#[cfg(unix)]
fn spawn(wait: impl FnOnce() + Send + 'static, ended: impl FnOnce() + Send + 'static) -> Result<()> {
    let watch = move || {
        wait();
        ended();
    };
    std::thread::Builder::new().name("lean-parent".into()).spawn(watch).map(|_thread| ())
}
