//! Where a model's bytes come from: memory, a map, or a reader.

use super::ReadSeek;
use crate::error::{Error, Result};
use std::io::SeekFrom;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

enum Bytes {
    Memory(Arc<[u8]>),
    #[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
    Map(memmap2::Mmap),
    Reader(Mutex<Box<dyn ReadSeek>>),
}

/// Random access to the bytes of a model file of known length.
pub(super) struct Source {
    bytes: Bytes,
    len: u64,
    /// A path, or what the source is; for error messages.
    label: String,
}

impl Source {
    pub(super) fn memory(bytes: Arc<[u8]>) -> Self {
        Source { len: bytes.len() as u64, bytes: Bytes::Memory(bytes), label: "in memory".into() }
    }

    #[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
    pub(super) fn map(map: memmap2::Mmap, label: String) -> Self {
        Source { len: map.len() as u64, bytes: Bytes::Map(map), label }
    }

    pub(super) fn reader(mut reader: Box<dyn ReadSeek>, label: String) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0)).map_err(|e| io_error(&label, &e))?;
        Ok(Source { bytes: Bytes::Reader(Mutex::new(reader)), len, label })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// All bytes, when they are in the address space already.
    pub(super) fn as_slice(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Memory(b) => Some(b),
            #[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
            Bytes::Map(m) => Some(m),
            Bytes::Reader(_) => None,
        }
    }

    /// Fills `out` from `offset`. The caller has checked the range against [`Source::len`]; a source that
    /// has become shorter since is an error.
    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if let Bytes::Reader(reader) = &self.bytes {
            // A reader that panicked in another call is still a reader: every access seeks first.
            let mut reader: MutexGuard<'_, _> = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let done = reader.seek(SeekFrom::Start(offset)).and_then(|_| reader.read_exact(out));
            return done.map_err(|e| io_error(&self.label, &e));
        }
        let range =
            usize::try_from(offset).ok().and_then(|at| self.as_slice()?.get(at..at.checked_add(out.len())?));
        match range {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                Err(Error::Internal(format!("read of {} bytes at {offset} outside the model", out.len())))
            }
        }
    }
}

/// A [`Error::ModelIo`] that says what to do about the usual causes.
pub(super) fn io_error(label: &str, e: &std::io::Error) -> Error {
    let reason = match e.kind() {
        std::io::ErrorKind::NotFound => "no such file; check the path".into(),
        std::io::ErrorKind::PermissionDenied => {
            "permission denied; make the file readable for this user".into()
        }
        std::io::ErrorKind::UnexpectedEof => {
            "the file became shorter while it was read; fetch it again".into()
        }
        _ => e.to_string(),
    };
    Error::ModelIo { path: label.into(), reason }
}
