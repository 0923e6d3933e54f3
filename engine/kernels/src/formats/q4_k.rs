//! Q4_K: `d sc q - dmin m`. A block is the head of [`k_quants`], then the nibbles of each part.

use super::{k_quants, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q4K;

impl Packed for Q4K {
    const COLS: usize = 256;
    const BYTES: usize = k_quants::HEAD + 8 * nibbles::BYTES;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        k_quants::pack_head(&rows, block);
        for (part, to) in block[k_quants::HEAD..].chunks_exact_mut(nibbles::BYTES).enumerate() {
            nibbles::pack(&rows.map(|r| k_quants::numbers(&r[16..], part)), to);
        }
    }
}

impl Quantised for Q4K {
    const BITS: u32 = 4;
    const OFFSET: bool = true;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe { nibbles::unpack::<L>(block.add(k_quants::HEAD + nibbles::BYTES * part)) }
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
