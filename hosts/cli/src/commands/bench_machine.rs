//! What the machine can do at most, measured in the same run: what `lean bench` reports shares of.

use lean_engine::{Error, Result};
use lean_kernels::{machine, Isa};
use std::hint::black_box;
use std::time::Instant;

/// Floats that a thread reads: more than caches hold.
const FLOATS: usize = (64 << 20) / 4;

/// Rounds of multiply-adds: some tens of milliseconds.
const ROUNDS: usize = 10_000_000;

/// Repetitions; the best counts.
const RUNS: usize = 5;

/// Of so many threads together, a second.
#[derive(serde::Serialize)]
pub struct Machine {
    pub threads: usize,
    pub read_bytes: f64,
    pub multiply_adds: f64,
}

impl Machine {
    /// Measures with as many threads as the model was told to use.
    pub fn measure(threads: usize) -> Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let isa = Isa::detect();
        let buffers = (0..threads).map(|_| buffer()).collect::<Result<Vec<_>>>()?;
        let read = best(threads, |thread| {
            black_box(machine::read(isa, black_box(&buffers[thread])));
            FLOATS as u64 * 4
        });
        let multiply = best(threads, |_| black_box(machine::multiply(isa, ROUNDS)).0);
        Ok(Machine { threads, read_bytes: read, multiply_adds: multiply })
    }
}

/// The most that all threads together got done in a second.
fn best(threads: usize, work: impl Fn(usize) -> u64 + Sync) -> f64 {
    let work = &work;
    let run = || {
        let start = Instant::now();
        let done: u64 = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|i| scope.spawn(move || work(i))).collect();
            work(0) + others.into_iter().filter_map(|t| t.join().ok()).sum::<u64>()
        });
        done as f64 / start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| run()).fold(0.0, f64::max)
}

/// Floats on huge pages, where the system has them for who asks: as the weights lie.
fn buffer() -> Result<Vec<f32>> {
    let mut buffer: Vec<f32> = Vec::new();
    buffer
        .try_reserve_exact(FLOATS)
        .map_err(|_| Error::OutOfMemory { wanted: FLOATS as u64 * 4, what: "a measurement".into() })?;
    #[cfg(target_os = "linux")]
    {
        const HUGE: usize = 2 << 20;
        let start = (buffer.as_ptr() as usize).next_multiple_of(HUGE);
        let end = (buffer.as_ptr() as usize + FLOATS * 4) / HUGE * HUGE;
        // SAFETY: whole pages within the buffer's allocation; advice changes no content.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
    buffer.resize(FLOATS, 1.0);
    Ok(buffer)
}
