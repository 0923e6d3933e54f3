//! Q5_K: `d sc q - dmin m`. A block is the head of [`k_quants`], then for each part 8 dwords of fifth bits (bit
//! `k` for column `k`), then for each part 4 times 32 bytes of nibbles.

use super::{k_quants, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q5K;

const FIFTH: usize = k_quants::HEAD;
const LOW: usize = FIFTH + 8 * 32;

impl Format for Q5K {
    const COLS: usize = 256;
    const BYTES: usize = LOW + 8 * 128;
    const PART: usize = 32;
    const OFFSET: bool = true;
    const SHIFTED: bool = false;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        k_quants::pack_head(&rows, block);
        let (head, low) = block.split_at_mut(LOW);
        for (part, (fifth, low)) in
            head[FIFTH..].chunks_exact_mut(32).zip(low.chunks_exact_mut(128)).enumerate()
        {
            for (row, to) in rows.iter().zip(fifth.chunks_exact_mut(4)) {
                // Bit `part` of byte `k` belongs to column `k` of the part.
                let bits =
                    row[16..48].iter().rev().fold(0u32, |bits, b| bits << 1 | u32::from(b >> part & 1));
                to.copy_from_slice(&bits.to_le_bytes());
            }
            nibbles::pack(&rows.map(|r| k_quants::numbers(&r[48..], part)), low);
        }
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            let fifth = L::shr(L::load_int(block.add(FIFTH + j / 4 * 32)), 8 * (j % 4) as u32);
            nibbles::extended::<L, 1>(block.add(LOW + 32 * j), fifth)
        }
    }

    #[inline(always)]
    unsafe fn scale<L: Lanes>(block: *const u8, part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { k_quants::scale(block, part) }
    }

    #[inline(always)]
    unsafe fn offset<L: Lanes>(block: *const u8, part: usize) -> L {
        // SAFETY: the caller vouches for the block.
        unsafe { k_quants::offset(block, part) }
    }
}
