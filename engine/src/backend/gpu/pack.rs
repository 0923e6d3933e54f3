//! From the blocks of a model file to the kernels' layout (`wgsl/common/format.wgsl`): the same bits, in planes
//! whose vectors the device reads sixteen bytes at a time.

use crate::quant::DType;

/// Elements of a group.
pub const GROUP: usize = 32;

/// What the kernels know of a storage type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// The value of the kernels' constant `FORMAT`.
    pub number: u32,
    /// Bytes of a group in the plane of weights.
    pub weight_bytes: usize,
    /// Bytes of eight groups in the plane of scales.
    pub scale_bytes_of_8: usize,
}

impl Format {
    /// The format of a type.
    pub fn of(dtype: DType) -> Self {
        let (number, weight_bytes, scale_bytes_of_8) = match dtype {
            DType::F32 => (0, 128, 0),
            DType::F16 => (1, 64, 0),
            DType::BF16 => (2, 64, 0),
            DType::Q4_0 => (3, 16, 16),
            DType::Q4_1 => (4, 16, 32),
            DType::Q5_0 => (5, 16, 64),
            DType::Q5_1 => (6, 16, 64),
            DType::Q8_0 => (7, 32, 16),
            DType::Q4_K => (8, 16, 16),
            DType::Q5_K => (9, 16, 48),
            DType::Q6_K => (10, 16, 84),
        };
        Format { number, weight_bytes, scale_bytes_of_8 }
    }

    /// Whether its numbers are integers of at most a byte.
    pub fn has_bytes(self) -> bool {
        self.scale_bytes_of_8 > 0
    }
}

/// The two planes of some rows.
#[derive(Debug, Default)]
pub struct Planes {
    /// Of the weights themselves.
    pub weights: Vec<u8>,
    /// Of scales, minima and upper bits.
    pub scales: Vec<u8>,
}

impl Planes {
    /// Nothing, with the memory kept.
    pub fn clear(&mut self) {
        self.weights.clear();
        self.scales.clear();
    }

    /// Appends whole blocks.
    pub fn push(&mut self, dtype: DType, bytes: &[u8]) {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.weights.extend_from_slice(bytes),
            DType::Q4_0 => self.split(bytes, 18, 2),
            DType::Q8_0 => self.split(bytes, 34, 2),
            DType::Q4_1 => self.split(bytes, 20, 4),
            DType::Q5_0 => {
                for block in bytes.chunks_exact(22) {
                    self.scales.extend_from_slice(&block[2..6]);
                    self.scales.extend_from_slice(&[block[0], block[1], 0, 0]);
                    self.weights.extend_from_slice(&block[6..]);
                }
            }
            DType::Q5_1 => {
                for block in bytes.chunks_exact(24) {
                    self.scales.extend_from_slice(&block[4..8]);
                    self.scales.extend_from_slice(&block[..4]);
                    self.weights.extend_from_slice(&block[8..]);
                }
            }
            DType::Q4_K => {
                for block in bytes.chunks_exact(144) {
                    self.scales.extend_from_slice(&block[..16]);
                    self.k_nibbles(&block[16..]);
                }
            }
            DType::Q5_K => bytes.chunks_exact(176).for_each(|block| self.q5_k(block)),
            DType::Q6_K => bytes.chunks_exact(210).for_each(|block| self.q6_k(block)),
        }
    }

    /// Blocks of `size` whose first `head` bytes are scales.
    fn split(&mut self, bytes: &[u8], size: usize, head: usize) {
        for block in bytes.chunks_exact(size) {
            self.scales.extend_from_slice(&block[..head]);
            self.weights.extend_from_slice(&block[head..]);
        }
    }

    /// The integers of 32 elements, of which the low nibbles are taken.
    fn nibbles(&mut self, q: impl Fn(usize) -> u8) {
        self.weights.extend((0..16).map(|i| (q(i) & 15) | (q(i + 16) & 15) << 4));
    }

    /// 128 bytes: of each 32, the low nibbles are one sub-block and the high ones the next.
    fn k_nibbles(&mut self, bytes: &[u8]) {
        for j in 0..8 {
            let of = &bytes[j / 2 * 32..][..32];
            self.nibbles(|i| of[i] >> (j % 2 * 4));
        }
    }

    fn q5_k(&mut self, block: &[u8]) {
        self.scales.extend_from_slice(&block[..16]);
        for j in 0..8 {
            let bits = (0..32).fold(0u32, |bits, i| bits | u32::from(block[16 + i] >> j & 1) << i);
            self.scales.extend_from_slice(&bits.to_le_bytes());
        }
        self.k_nibbles(&block[48..]);
    }

    fn q6_k(&mut self, block: &[u8]) {
        self.scales.extend_from_slice(&block[192..208]);
        self.scales.extend_from_slice(&[block[208], block[209], 0, 0]);
        for j in 0..8 {
            let (half, g) = (j / 4, j % 4);
            let high = &block[128 + half * 32..][..32];
            for side in [0, 16] {
                let two = |e: usize| u32::from(high[side + e] >> (2 * g) & 3) << (2 * e);
                let bits = (0..16).fold(0, |bits, e| bits | two(e));
                self.scales.extend_from_slice(&bits.to_le_bytes());
            }
            let low = &block[half * 64 + g % 2 * 32..][..32];
            self.nibbles(|i| low[i] >> (g / 2 * 4));
        }
    }
}
