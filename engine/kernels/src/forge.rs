//! Random rows of every format, for the tests and benchmarks of this crate and of what is built on it.

use crate::quant::DType;

/// xorshift64*: the same numbers everywhere.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // It never ends.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// One of `0 .. n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Uniform in `[-1, 1)`.
    pub fn float(&mut self) -> f32 {
        ((self.next() >> 40) as f32) / (1 << 23) as f32 - 1.0
    }
}

/// Random bytes of a row of blocks whose scales are finite and moderate.
pub fn random_row(random: &mut Random, dtype: DType, cols: usize) -> Vec<u8> {
    let half = |random: &mut Random, size: f32| half::f16::from_f32(random.float() * size).to_le_bytes();
    let mut row = Vec::new();
    for _ in 0..cols / dtype.block_elems() {
        let mut block: Vec<u8> = (0..dtype.block_bytes()).map(|_| random.next() as u8).collect();
        match dtype {
            DType::F32 => block.copy_from_slice(&(random.float() * 0.2).to_le_bytes()),
            DType::F16 => block.copy_from_slice(&half(random, 0.2)),
            DType::BF16 => block.copy_from_slice(&half::bf16::from_f32(random.float() * 0.2).to_le_bytes()),
            DType::Q4_0 | DType::Q5_0 => block[..2].copy_from_slice(&half(random, 0.02)),
            DType::Q8_0 => block[..2].copy_from_slice(&half(random, 0.002)),
            DType::Q4_1 | DType::Q5_1 => {
                block[..2].copy_from_slice(&half(random, 0.02));
                block[2..4].copy_from_slice(&half(random, 0.2));
            }
            DType::Q4_K | DType::Q5_K => {
                block[..2].copy_from_slice(&half(random, 0.0005));
                block[2..4].copy_from_slice(&half(random, 0.005));
            }
            DType::Q6_K => block[208..].copy_from_slice(&half(random, 0.0001)),
        }
        row.extend(block);
    }
    row
}
