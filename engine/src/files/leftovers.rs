//! Temporary files of processes that were killed while they wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// A file that nobody has written to for this long. Another machine may write into a shared folder, whose processes
/// this one does not know.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The name of a temporary file of this process.
pub(super) fn name(number: u32) -> String {
    format!(".lean-{}-{number}.tmp", std::process::id())
}

/// The process whose temporary file has this name.
fn owner(name: &str) -> Option<i32> {
    let (pid, number) = name.strip_prefix(".lean-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u32>().ok()?;
    // 0 and negative numbers mean groups of processes.
    pid.parse().ok().filter(|pid| *pid > 0)
}

/// Removes what dead processes have left in the folder of `path`, as far as that is possible; once after another for the
/// same folder does nothing.
pub(super) fn sweep(path: &Path) {
    static LAST: Mutex<Option<PathBuf>> = Mutex::new(None);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    {
        let Ok(mut last) = LAST.lock() else { return };
        if last.as_deref() == Some(folder) {
            return;
        }
        *last = Some(folder.to_path_buf());
    }
    sweep_folder(folder, SystemTime::now());
}

fn sweep_folder(folder: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(owner) else { continue };
        let Ok(meta) = entry.metadata() else { continue };
        let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok());
        if meta.is_file() && age.is_some_and(|age| age >= ABANDONED) && is_dead(pid) {
            // It is not in the way if it cannot be removed.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether there certainly is no such process.
#[cfg(unix)]
fn is_dead(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody: the call only asks whether the process is there, and touches no memory.
    let found = unsafe { libc::kill(pid, 0) };
    found == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn is_dead(_pid: i32) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn leftovers_of_dead_processes_go_and_nothing_else_does() {
        let folder = std::env::temp_dir().join(format!("lean-leftovers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let old = SystemTime::now() - 2 * ABANDONED;
        let make = |name: String, at: SystemTime| {
            let path = folder.join(name);
            fs::File::create(&path).unwrap().set_modified(at).unwrap();
            path
        };
        let gone = make(format!(".lean-{dead}-3.tmp"), old);
        let stay = [
            make(format!(".lean-{dead}-4.tmp"), SystemTime::now()),
            make(name(0), old),
            make(".lean-1-0.tmp".into(), old),
            make(".lean-0-0.tmp".into(), old),
            make(".lean--1-0.tmp".into(), old),
            make(format!(".lean-{dead}-x.tmp"), old),
            make(format!(".lean-{dead}-3.tmp.lean"), old),
            make(format!("lean-{dead}-3.tmp"), old),
        ];
        sweep(&folder.join("state.lean"));
        assert!(!gone.exists());
        for path in stay {
            assert!(path.exists(), "{}", path.display());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
