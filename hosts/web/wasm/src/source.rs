//! A model's bytes, wherever the worker has them.

use crate::worker;
use lean_engine::{Error, Result};
use std::io::{self, Read, Seek, SeekFrom};

/// A reader over a source that the worker knows by name. Bytes are read straight to where the engine wants them.
pub(crate) struct Source {
    name: String,
    len: u64,
    at: u64,
}

impl Source {
    /// # Errors
    /// [`Error::ModelIo`] if the worker knows no such source.
    pub fn open(name: &str) -> Result<Self> {
        let size = worker::with(|w| w.size(name).map_err(|e| worker::message(&e)));
        match size.unwrap_or_else(|| Err("there is no worker".into())) {
            // Whole numbers up to 2^53 are exact.
            Ok(size) if size >= 0.0 => Ok(Source { name: name.into(), len: size as u64, at: 0 }),
            Ok(size) => Err(model_io(name, format!("its size is {size}"))),
            Err(reason) => Err(model_io(name, reason)),
        }
    }
}

pub(crate) fn model_io(name: &str, reason: String) -> Error {
    Error::ModelIo { path: name.into(), reason }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = (self.len.saturating_sub(self.at)).min(into.len() as u64) as usize;
        if n == 0 {
            return Ok(0);
        }
        let read = worker::with(|w| w.read(&self.name, self.at as f64, &mut into[..n]));
        match read {
            Some(Ok(())) => {
                self.at += n as u64;
                Ok(n)
            }
            Some(Err(e)) => Err(io::Error::other(worker::message(&e))),
            None => Err(io::Error::other("there is no worker")),
        }
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
