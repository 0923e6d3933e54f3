//! How keys and values are stored: the planes of a head's page, and their numbers.
//!
//! A head's part of a page is [`PAGE_TOKENS`] rows of `head_dim` numbers, in one or two planes, each with all rows
//! one after the other (little-endian):
//!
//! ```text
//! f32    f32 [rows][head_dim]
//! f24    u16 [rows][head_dim], then u8 [rows][head_dim]      the upper 24 bits of a float32, rounded to nearest even
//! f16    f16 [rows][head_dim]
//! q8_0   f16 [rows][blocks], then i8 [rows][head_dim]        blocks of 32: x = scale * q, scale = max |x| / 127
//! ```

use serde::{Deserialize, Serialize};

/// Tokens in a page. Small enough that the one partial page a fork copies costs microseconds, large enough
/// that attention walks long runs.
pub const PAGE_TOKENS: usize = 32;

/// Elements of a block of `q8_0`.
pub const BLOCK: usize = 32;

/// The type of stored keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// Exact: what was computed. 4 bytes a number.
    #[default]
    F32,
    /// 16 bits of mantissa; 3 bytes a number. Passes the same gate as `F32`.
    F24,
    /// Half precision; 2 bytes a number.
    F16,
    /// Blocks of 32 with a scale; 1.06 bytes a number.
    Q8_0,
}

/// A plane of a head's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// From the start of the head's part, in bytes.
    pub offset: usize,
    /// Bytes of a row.
    pub row: usize,
}

impl KvType {
    /// All of them.
    pub const ALL: [KvType; 4] = [KvType::F32, KvType::F24, KvType::F16, KvType::Q8_0];

    /// `f32`, `f24`, `f16` or `q8_0`.
    pub const fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F24 => "f24",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// The planes of a head of `head_dim` elements; the second may have no bytes.
    pub const fn planes(self, head_dim: usize) -> [Plane; 2] {
        let (first, second) = match self {
            KvType::F32 => (4 * head_dim, 0),
            KvType::F24 => (2 * head_dim, head_dim),
            KvType::F16 => (2 * head_dim, 0),
            KvType::Q8_0 => (2 * head_dim.div_ceil(BLOCK), head_dim),
        };
        [Plane { offset: 0, row: first }, Plane { offset: first * PAGE_TOKENS, row: second }]
    }

    /// Bytes of a head's part of a page, a multiple of 4.
    pub const fn head_bytes(self, head_dim: usize) -> usize {
        let [first, second] = self.planes(head_dim);
        (first.row + second.row) * PAGE_TOKENS
    }

    /// Stores a row: `planes` are its bytes in each plane.
    pub fn encode(self, values: &[f32], planes: [&mut [u8]; 2]) {
        let [first, second] = planes;
        match self {
            KvType::F32 => {
                first.chunks_exact_mut(4).zip(values).for_each(|(b, x)| b.copy_from_slice(&x.to_le_bytes()));
            }
            KvType::F24 => {
                for ((high, low), x) in first.chunks_exact_mut(2).zip(second).zip(values) {
                    let bits = round_24(*x);
                    high.copy_from_slice(&((bits >> 16) as u16).to_le_bytes());
                    *low = (bits >> 8) as u8;
                }
            }
            KvType::F16 => {
                for (b, x) in first.chunks_exact_mut(2).zip(values) {
                    b.copy_from_slice(&half::f16::from_f32(*x).to_le_bytes());
                }
            }
            KvType::Q8_0 => {
                let blocks = values.chunks(BLOCK).zip(second.chunks_mut(BLOCK));
                for ((values, to), scale) in blocks.zip(first.chunks_exact_mut(2)) {
                    // As ggml's quantize_row_q8_0.
                    let most = values.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                    let d = most / 127.0;
                    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
                    scale.copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
                    to.iter_mut().zip(values).for_each(|(q, x)| *q = (x * inverse).round() as i8 as u8);
                }
            }
        }
    }

    /// Reads a row back.
    pub fn decode(self, planes: [&[u8]; 2], out: &mut [f32]) {
        let [first, second] = planes;
        let half = |b: &[u8]| half::f16::from_le_bytes([b[0], b[1]]).to_f32();
        match self {
            KvType::F32 => {
                for (b, x) in first.chunks_exact(4).zip(out) {
                    *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            KvType::F24 => {
                for ((high, low), x) in first.chunks_exact(2).zip(second).zip(out) {
                    *x = f32::from_le_bytes([0, *low, high[0], high[1]]);
                }
            }
            KvType::F16 => first.chunks_exact(2).zip(out).for_each(|(b, x)| *x = half(b)),
            KvType::Q8_0 => {
                let blocks = second.chunks(BLOCK).zip(out.chunks_mut(BLOCK));
                for ((from, out), scale) in blocks.zip(first.chunks_exact(2)) {
                    let d = half(scale);
                    from.iter().zip(out).for_each(|(q, x)| *x = f32::from(*q as i8) * d);
                }
            }
        }
    }
}

/// The bits of a float32 rounded to its upper 24 bits; NaN stays NaN.
fn round_24(x: f32) -> u32 {
    let bits = x.to_bits();
    match x.is_nan() {
        true => bits | 0x0040_0000,
        false => bits.wrapping_add(0x7f + ((bits >> 8) & 1)) & !0xff,
    }
}

impl std::fmt::Display for KvType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of a [`KvType`]: what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKvType(pub String);

impl std::fmt::Display for UnknownKvType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownKvType {}

impl std::str::FromStr for KvType {
    type Err = UnknownKvType;
    fn from_str(s: &str) -> Result<Self, UnknownKvType> {
        let found = Self::ALL.into_iter().find(|k| k.name() == s);
        found.ok_or_else(|| UnknownKvType(format!("{s:?} is not one of f32, f24, f16, q8_0")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(kv: KvType, values: &[f32]) -> Vec<f32> {
        let [a, b] = kv.planes(values.len());
        let (mut first, mut second) = (vec![0; a.row], vec![0; b.row]);
        kv.encode(values, [&mut first, &mut second]);
        let mut out = vec![f32::NAN; values.len()];
        kv.decode([&first, &second], &mut out);
        out
    }

    #[test]
    fn errors_are_those_of_the_types() {
        for n in [1, 14, 32, 64, 80, 256] {
            let values: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.137).collect();
            let most = values.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            for kv in KvType::ALL {
                let relative = match kv {
                    KvType::F32 => 0.0,
                    // Fifteen stored bits of mantissa, rounded.
                    KvType::F24 => 1.0 / (1 << 16) as f32,
                    KvType::F16 => 1.0 / (1 << 11) as f32,
                    KvType::Q8_0 => 0.0,
                };
                // Half a step, and what rounding the scale to half precision adds.
                let absolute = if kv == KvType::Q8_0 { most * (0.5 / 127.0 + 1.0 / 2048.0) } else { 0.0 };
                for (x, y) in values.iter().zip(round_trip(kv, &values)) {
                    assert!((x - y).abs() <= x.abs() * relative + absolute, "{kv} of {n}: {x} became {y}");
                }
                assert_eq!(kv.head_bytes(n) % 4, 0);
                // What was rounded stays.
                if kv != KvType::Q8_0 {
                    let once = round_trip(kv, &values);
                    assert_eq!(round_trip(kv, &once), once);
                }
            }
        }
    }

    #[test]
    fn f24_rounds_to_even_and_keeps_the_special() {
        for (bits, want) in [
            (0x3f80_0080u32, 0x3f80_0000u32),
            (0x3f80_0180, 0x3f80_0200),
            (0x3f80_0081, 0x3f80_0100),
            (0x7f7f_ffff, 0x7f80_0000),
            (0x8000_0000, 0x8000_0000),
            (0xff80_0000, 0xff80_0000),
        ] {
            assert_eq!(round_24(f32::from_bits(bits)), want, "{bits:08x}");
        }
        assert!(round_trip(KvType::F24, &[f32::from_bits(0x7f80_0001)])[0].is_nan());
    }
}
