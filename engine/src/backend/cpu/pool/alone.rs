//! One thread: the page's or the worker's own.

use super::Work;
use crate::error::Result;

pub(crate) fn default_threads() -> usize {
    1
}

pub(crate) struct Pool;

impl Pool {
    pub(crate) fn new(_threads: usize) -> Result<Self> {
        Ok(Pool)
    }

    pub(crate) fn threads(&self) -> usize {
        1
    }

    pub(crate) fn run(&mut self, items: usize, work: Work<'_>) -> Result<()> {
        for item in 0..items {
            work(item, 0);
        }
        Ok(())
    }
}
