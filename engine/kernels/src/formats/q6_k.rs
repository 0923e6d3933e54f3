//! Q6_K: `d sc (q - 32)`. A block is 8 f16 scales; for each of 16 parts 8 signed byte scales; for each part 8
//! dwords of upper bits (bits `2 k ..` for column `k`); then 32 times 32 bytes of nibbles.

use super::{interleave, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q6K;

const SCALES: usize = 16;
const UPPER: usize = SCALES + 16 * 8;
const LOW: usize = UPPER + 16 * 32;

/// The numbers of columns `32 * unit ..` of a file's block: each half of it (four units) has 64 bytes of nibbles
/// and 32 bytes of upper bits.
fn numbers(block: &[u8], unit: usize) -> [u8; 32] {
    let (half, quarter) = (unit / 4, unit % 4);
    std::array::from_fn(|i| {
        let low = block[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        let upper = block[128 + half * 32 + i] >> (quarter * 2) & 3;
        low | upper << 4
    })
}

impl Format for Q6K {
    const COLS: usize = 256;
    const BYTES: usize = LOW + 32 * 32;
    const PART: usize = 16;
    const OFFSET: bool = true;
    const SHIFTED: bool = false;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        interleave::<2>(&rows, 208, &mut block[..16]);
        for (part, to) in block[SCALES..UPPER].chunks_exact_mut(8).enumerate() {
            interleave::<1>(&rows, 192 + part, to);
        }
        let (head, low) = block.split_at_mut(LOW);
        for (unit, (upper, low)) in
            head[UPPER..].chunks_exact_mut(64).zip(low.chunks_exact_mut(128)).enumerate()
        {
            let q = rows.map(|r| numbers(r, unit));
            for (part, to) in upper.chunks_exact_mut(32).enumerate() {
                for (q, to) in q.iter().zip(to.chunks_exact_mut(4)) {
                    let q = &q[16 * part..16 * part + 16];
                    let bits = q.iter().rev().fold(0u32, |bits, q| bits << 2 | u32::from(q >> 4));
                    to.copy_from_slice(&bits.to_le_bytes());
                }
            }
            nibbles::pack(&q, low);
        }
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            let upper = L::shr(L::load_int(block.add(UPPER + j / 2 * 32)), 16 * (j % 2) as u32);
            nibbles::extended::<L, 2>(block.add(LOW + 32 * j), upper)
        }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { L::load_f16(block).mul(L::float(L::load_i8(block.add(SCALES + 8 * part)))) }
    }

    #[inline(always)]
    unsafe fn offset<L: Lanes>(block: *const u8, part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { Self::scale::<L>(block, part) }.mul(L::splat(-32.0))
    }
}
