//! Memory of weights: they are read from end to end for every token, and many small pages would make that slower
//! than the memory itself (measured: 8 instead of 12 GB/s on a virtual machine).
//!
//! Matrices are therefore cut from large chunks, for which the system is asked for huge pages where it has them.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(not(unix), path = "other.rs")]
mod chunk;

use crate::error::{Error, Result};
use chunk::Chunk;
use std::sync::Arc;

/// Bytes of a chunk, if no matrix needs more. What is not used of it is not there: pages appear when written.
const CHUNK: usize = 32 << 20;

/// Pieces begin at a multiple of this: a cache line.
const ALIGN: usize = 64;

/// Hands out zeroed memory that is given back when all pieces of a chunk are gone.
#[derive(Default)]
pub(crate) struct Arena {
    chunk: Option<Arc<Chunk>>,
    /// Bytes of it that are taken.
    used: usize,
}

/// Some memory of a chunk, this owner's alone.
pub(crate) struct Piece {
    chunk: Arc<Chunk>,
    at: usize,
    len: usize,
}

impl Arena {
    /// `len` zeros for the tensor `name`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn take(&mut self, len: usize, name: &str) -> Result<Piece> {
        let out_of_memory = || Error::OutOfMemory { wanted: len as u64, what: format!("the weights {name}") };
        let room = |chunk: &Arc<Chunk>| chunk.len() - self.used >= len;
        let chunk = match self.chunk.as_ref().filter(|c| room(c)) {
            Some(chunk) => chunk.clone(),
            None => {
                // A tensor that is most of a chunk gets its own, and what is left of the last one serves on.
                let small = len <= CHUNK / 4;
                let new = Arc::new(Chunk::new(if small { CHUNK } else { len }).ok_or_else(out_of_memory)?);
                if !small {
                    return Ok(Piece { chunk: new, at: 0, len });
                }
                self.used = 0;
                self.chunk.insert(new).clone()
            }
        };
        let at = self.used;
        self.used = (at + len).next_multiple_of(ALIGN).min(chunk.len());
        Ok(Piece { chunk, at, len })
    }
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: within the chunk, which lives as long as `self`; written through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.chunk.at().add(self.at), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `Arena::take` gave these bytes to nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.chunk.at().add(self.at), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_and_apart() {
        let mut arena = Arena::default();
        let sizes = [0, 1, 100, CHUNK / 4, CHUNK / 4 + 1, 2 * CHUNK, 63, CHUNK / 4, CHUNK / 4, CHUNK / 4];
        let mut pieces: Vec<Piece> = sizes.iter().map(|&n| arena.take(n, "w").unwrap()).collect();
        for (i, piece) in pieces.iter_mut().enumerate() {
            assert_eq!(piece.bytes().as_ptr() as usize % ALIGN, 0);
            assert!(piece.bytes().iter().all(|&b| b == 0), "piece {i}");
            piece.bytes_mut().fill(1 + i as u8);
        }
        drop(arena);
        for (i, piece) in pieces.iter().enumerate() {
            assert_eq!(piece.bytes().len(), sizes[i]);
            assert!(piece.bytes().iter().all(|&b| b == 1 + i as u8), "piece {i}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        let error = Arena::default().take(usize::MAX / 2, "blk.0").err();
        assert!(matches!(&error, Some(Error::OutOfMemory { what, .. }) if what.contains("blk.0")));
    }
}
