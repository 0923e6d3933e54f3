//! What the machine can do at most with the threads of a model: what a benchmark reports shares of.

use super::memory::{Arena, Piece};
use super::pool::{default_threads, Pool};
use crate::error::Result;
use lean_kernels::{machine, Isa};
use std::hint::black_box;
use web_time::Instant;

/// Bytes that are read for each thread: more than caches hold.
const BYTES: usize = 64 << 20;

/// Pieces that they are cut into, so that a thread that comes late does less.
const PIECES: usize = 16;

/// Rounds of multiply-adds of an item: with sixteen items a thread, some tens of milliseconds.
const ROUNDS: usize = 600_000;

/// Repetitions; the best counts.
const RUNS: usize = 5;

/// Of all threads together, a second.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Speed {
    /// Threads.
    pub threads: usize,
    /// Bytes read.
    pub read_bytes: f64,
    /// Multiply-adds of float32 numbers.
    pub multiply_adds: f64,
}

impl Speed {
    /// Measures for some tenths of a second. 0 threads are as many as a model uses by default. The memory lies as the
    /// weights do.
    ///
    /// # Errors
    /// `OutOfMemory`; `Device` if threads cannot be started.
    pub fn measure(threads: usize) -> Result<Self> {
        let threads = if threads == 0 { default_threads() } else { threads };
        let (isa, mut pool, mut arena) = (Isa::detect(), Pool::new(threads)?, Arena::default());
        let items = pool.threads() * PIECES;
        let mut pieces: Vec<Piece> =
            (0..items).map(|_| arena.take(BYTES / PIECES, "of a measurement")).collect::<Result<_>>()?;
        // Pages that nobody wrote are all the same one.
        pieces.iter_mut().for_each(|p| p.bytes_mut().fill(0));
        let read = best(&mut pool, items, &|item, _| {
            black_box(machine::read(isa, black_box(pieces[item].bytes())));
        })?;
        let multiply = best(&mut pool, items, &|_, _| {
            black_box(machine::multiply(isa, ROUNDS));
        })?;
        Ok(Speed {
            threads: pool.threads(),
            read_bytes: read * (BYTES / PIECES) as f64,
            multiply_adds: multiply * machine::multiply_adds(ROUNDS) as f64,
        })
    }
}

/// The most items that were done in a second.
fn best(pool: &mut Pool, items: usize, work: &(dyn Fn(usize, usize) + Sync)) -> Result<f64> {
    let mut best = 0.0f64;
    for _ in 0..RUNS {
        let start = Instant::now();
        pool.run(items, work)?;
        best = best.max(items as f64 / start.elapsed().as_secs_f64());
    }
    Ok(best)
}
