//! One line of progress on a terminal, and nothing anywhere else.

use std::io::{IsTerminal, Write};

pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    shown: Option<u64>,
    terminal: bool,
}

impl Progress {
    pub fn new(what: &'static str, total: u64) -> Self {
        Progress { what, total, done: 0, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    pub fn add(&mut self, n: u64) {
        self.at(self.done + n, self.total);
    }

    /// Where the work stands, for who counts it elsewhere.
    pub fn at(&mut self, done: u64, total: u64) {
        (self.done, self.total) = (done, total);
        let percent = self.done.saturating_mul(100) / self.total.max(1);
        if self.terminal && self.shown != Some(percent) {
            self.shown = Some(percent);
            let _ = write!(std::io::stderr(), "\r{} {percent:3} %", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            // Erased, so that only the result stays on the screen.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
