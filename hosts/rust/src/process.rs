//! The bridge process: its pipes, the end of its stderr, and how it ends.

use crate::{find_bridge, Error, Exit, Result, SpawnOptions};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of stderr that an [`Exit`] carries.
const STDERR_BYTES: usize = 4096;
/// How long what a dead bridge wrote to stderr may take to arrive: a child of its own may hold it open.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panicked while it held the lock left nothing half done: every section here is one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A spawned `lean-bridge` and its streams of bytes: what an [`crate::Engine`] speaks through, for programs that speak the
/// protocol themselves. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    pid: u32,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Says when stderr has ended, by being closed.
    stderr_open: Mutex<Receiver<()>>,
    exit: Mutex<Option<Exit>>,
}

impl Process {
    /// Starts the bridge that the options name; answers its stdin and stdout as well.
    pub fn start(options: &SpawnOptions) -> Result<(Self, ChildStdin, ChildStdout)> {
        let file = find_bridge(options.bridge.as_deref())?;
        let mut command = Command::new(&file);
        command
            .arg("--parent-pid")
            .arg(std::process::id().to_string())
            .args(&options.args)
            .envs(options.envs.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let failed = |e: io::Error| {
            Error::exited(Exit::otherwise(format!("could not be started ({}): {e}", file.display())))
        };
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(failed(io::Error::other("it has no pipes")));
        };
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let (open, stderr_open) = channel();
        let (tail, also) = (stderr.clone(), options.inherit_stderr);
        thread::Builder::new()
            .name("lean-stderr".into())
            .spawn(move || drain(errors, &tail, also, open))
            .map_err(failed)?;
        let process = Self {
            pid: child.id(),
            child: Mutex::new(child),
            stderr,
            stderr_open: Mutex::new(stderr_open),
            exit: Mutex::new(None),
        };
        Ok((process, input, output))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends it at once.
    pub fn kill(&self) {
        let _ = lock(&self.child).kill();
    }

    /// Waits for its end; after the patience it is killed.
    pub fn wait(&self, patience: Duration) -> Exit {
        let mut known = lock(&self.exit);
        if let Some(exit) = &*known {
            return exit.clone();
        }
        let mut exit = match self.status(patience) {
            Ok(status) => of_status(status),
            Err(e) => Exit::otherwise(format!("could not be waited for: {e}")),
        };
        let _ = lock(&self.stderr_open).recv_timeout(STDERR_PATIENCE);
        exit.stderr = String::from_utf8_lossy(&lock(&self.stderr)).into_owned();
        known.insert(exit).clone()
    }

    fn status(&self, patience: Duration) -> io::Result<ExitStatus> {
        let late = Instant::now() + patience;
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(status) = lock(&self.child).try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= late {
                self.kill();
                return lock(&self.child).wait();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if lock(&self.exit).is_none() {
            self.kill();
            let _ = lock(&self.child).wait();
        }
    }
}

/// Keeps the end of what is read, until there is no more.
fn drain(mut from: ChildStderr, tail: &Mutex<Vec<u8>>, also: bool, _open: Sender<()>) {
    let mut buffer = [0; 4096];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if also {
            // A stderr that fails must not fill the bridge's pipe.
            let _ = io::stderr().write_all(&buffer[..n]);
        }
        let mut tail = lock(tail);
        tail.extend_from_slice(&buffer[..n]);
        let over = tail.len().saturating_sub(STDERR_BYTES);
        tail.drain(..over);
    }
}

#[cfg(unix)]
fn of_status(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    Exit { status: status.code(), signal: status.signal(), ..Exit::default() }
}

#[cfg(not(unix))]
fn of_status(status: ExitStatus) -> Exit {
    Exit { status: status.code(), ..Exit::default() }
}
