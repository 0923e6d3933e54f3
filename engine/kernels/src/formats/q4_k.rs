//! Q4_K: `d sc q - dmin m`. A block is the head of [`k_quants`], then for each part 4 times 32 bytes of nibbles.

use super::{k_quants, nibbles, Format, ROWS};
use crate::lanes::Lanes;

pub struct Q4K;

impl Format for Q4K {
    const COLS: usize = 256;
    const BYTES: usize = k_quants::HEAD + 8 * 128;
    const PART: usize = 32;
    const OFFSET: bool = true;
    const SHIFTED: bool = true;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        k_quants::pack_head(&rows, block);
        for (part, to) in block[k_quants::HEAD..].chunks_exact_mut(128).enumerate() {
            nibbles::pack(&rows.map(|r| k_quants::numbers(&r[16..], part)), to);
        }
    }

    #[inline(always)]
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::shifted(block.add(k_quants::HEAD + 32 * j)) }
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
