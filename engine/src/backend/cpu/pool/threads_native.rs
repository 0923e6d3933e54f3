//! Threads of the operating system.

use super::MAX_THREADS;
use std::thread::{JoinHandle, Thread};

/// Physical cores that the process may use, affinity and cgroup limits respected: a second thread on a core would wait
/// for the same multipliers.
pub(crate) fn default_threads() -> usize {
    let usable = std::thread::available_parallelism().map_or(1, |n| n.get());
    physical_cores().map_or(usable, |cores| cores.min(usable)).clamp(1, MAX_THREADS)
}

/// Different cores among the processors that the process may run on, if the system tells.
#[cfg(target_os = "linux")]
fn physical_cores() -> Option<usize> {
    // SAFETY: `cpu_set_t` is plain old data, for which all zeros is valid; the call writes only into it.
    let (status, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &mut set), set)
    };
    if status != 0 {
        return None;
    }
    let mut cores = std::collections::HashSet::new();
    for cpu in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: `cpu` is below the set's size.
        if unsafe { libc::CPU_ISSET(cpu, &set) } {
            let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            cores.insert(std::fs::read_to_string(siblings).ok()?);
        }
    }
    Some(cores.len()).filter(|&n| n > 0)
}

#[cfg(not(target_os = "linux"))]
fn physical_cores() -> Option<usize> {
    None
}

/// A started thread.
pub(super) struct Handle(JoinHandle<()>);

impl Handle {
    /// For waking it.
    pub fn thread(&self) -> &Thread {
        self.0.thread()
    }

    /// Waits for its end.
    pub fn join(self) {
        // Workers catch the panics of their work; there is nobody to tell of another kind.
        let _ = self.0.join();
    }
}

/// Starts a thread.
pub(super) fn start(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<Option<Handle>> {
    std::thread::Builder::new().name(name).spawn(run).map(|handle| Some(Handle(handle)))
}
