//! The random numbers of a request: a seed, a counter, and one draw a sampled token.

use serde::{Deserialize, Serialize};

/// SplitMix64 (Steele, Lea, Flood 2014). Its whole state is one word, so a checkpoint keeps it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Uniform in `[0, 2^32)`.
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let draws: Vec<u32> = (0..3).map(|_| random.next()).collect();
        // High words of the published sequence for this seed.
        let full: [u64; 3] =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(draws, full.map(|z| (z >> 32) as u32));
    }
}
