//! Any Unix: asks ten times a second whether the process is still there.

use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);

/// Blocks until the process has ended. A process of another user counts as alive.
pub fn wait(pid: u32) {
    loop {
        // SAFETY: signal 0 sends nothing; it only asks whether the process exists.
        let gone = unsafe { libc::kill(pid as libc::pid_t, 0) } < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if gone {
            return;
        }
        std::thread::sleep(EVERY);
    }
}
