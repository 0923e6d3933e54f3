//! Random weights, made block by block. Quantising billions of numbers would take long and gains nothing: a pool of
//! blocks of random numbers is quantised once, and a tensor is a random sequence of its members.

use lean_engine::quant::{quantize_row, DType};
use lean_engine::Result;
use rayon::prelude::*;

/// Elements of a member of the pool: whole blocks of every format.
const UNIT: usize = 256;
/// Members; a power of two.
const MEMBERS: usize = 1024;
/// Bytes that one task makes, about.
const CHUNK: usize = 4 << 20;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform, with mean 0 and a standard deviation of 1.
    pub fn number(&mut self) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        (unit - 0.5) * 12f32.sqrt()
    }
}

/// Blocks of one type and one standard deviation.
pub struct Pool {
    bytes: Vec<u8>,
    unit: usize,
}

impl Pool {
    pub fn new(dtype: DType, deviation: f32, seed: u64) -> Result<Self> {
        let unit = UNIT / dtype.block_elems() * dtype.block_bytes();
        let mut bytes = vec![0; unit * MEMBERS];
        bytes.par_chunks_exact_mut(unit).enumerate().try_for_each(|(i, member)| {
            let mut random = Random(seed ^ (i as u64) << 32);
            let values: Vec<f32> = (0..UNIT).map(|_| random.number() * deviation).collect();
            quantize_row(dtype, &values, member)
        })?;
        Ok(Pool { bytes, unit })
    }

    /// Calls `sink` with the `total` bytes of a tensor, piece by piece; the same for the same seed whatever the number
    /// of threads.
    pub fn tensor(&self, total: u64, seed: u64, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let chunk = CHUNK / self.unit * self.unit;
        let batch = chunk * rayon::current_num_threads();
        let mut buffer = vec![0; usize::try_from(total).unwrap_or(usize::MAX).min(batch)];
        let (mut done, mut number) = (0, 0);
        while done < total {
            let n = (total - done).min(batch as u64) as usize;
            let piece = &mut buffer[..n];
            piece.par_chunks_mut(chunk).enumerate().for_each(|(i, out)| {
                self.chunk(out, Random(seed ^ (number + i as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95)));
            });
            number += piece.len().div_ceil(chunk) as u64;
            sink(piece)?;
            done += n as u64;
        }
        Ok(())
    }

    fn chunk(&self, out: &mut [u8], mut random: Random) {
        for unit in out.chunks_mut(self.unit) {
            let at = (random.next() >> 54) as usize % MEMBERS * self.unit;
            unit.copy_from_slice(&self.bytes[at..at + unit.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lean_engine::quant::dequantize_row;

    #[test]
    fn numbers_have_the_deviation_that_was_asked_for() {
        for dtype in DType::ALL {
            let elements = 256 * 1000;
            let total = dtype.bytes_of(elements).unwrap();
            let mut bytes = Vec::new();
            let pool = Pool::new(dtype, 0.02, 7).unwrap();
            pool.tensor(total as u64, 1, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
            assert_eq!(bytes.len(), total);
            let mut values = vec![f32::NAN; elements];
            dequantize_row(dtype, &bytes, &mut values).unwrap();
            let deviation = (values.iter().map(|x| f64::from(x * x)).sum::<f64>() / elements as f64).sqrt();
            assert!((deviation - 0.02).abs() < 0.001, "{dtype}: {deviation}");
        }
    }

    #[test]
    fn bytes_do_not_depend_on_the_threads() {
        let pool = Pool::new(DType::Q8_0, 1.0, 3).unwrap();
        let make = |threads: usize, seed: u64| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut bytes = Vec::new();
            // Neither whole chunks nor whole units.
            let total = (3 * CHUNK / 34 * 34 + 34) as u64;
            threads
                .install(|| {
                    pool.tensor(total, seed, |p| {
                        bytes.extend_from_slice(p);
                        Ok(())
                    })
                })
                .unwrap();
            bytes
        };
        let one = make(1, 5);
        assert!(one == make(3, 5));
        assert!(one != make(1, 6));
    }
}
