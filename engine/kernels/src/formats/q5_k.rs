//! Q5_K: `d sc q - dmin m`. A block is the head of [`k_quants`], then the fifth bits and the nibbles of each part.

use super::{k_quants, nibbles, Packed, Quantised, ROWS};
use crate::lanes::Lanes;

pub struct Q5K;

/// Bytes of a part.
const PART: usize = 32 + nibbles::BYTES;

impl Packed for Q5K {
    const COLS: usize = 256;
    const BYTES: usize = k_quants::HEAD + 8 * PART;

    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]) {
        k_quants::pack_head(&rows, block);
        for (part, to) in block[k_quants::HEAD..].chunks_exact_mut(PART).enumerate() {
            let q = rows.map(|r| {
                let mut q = k_quants::numbers(&r[48..], part);
                for (q, fifth) in q.iter_mut().zip(&r[16..48]) {
                    *q |= (fifth >> part & 1) << 4;
                }
                q
            });
            nibbles::pack_bit(&q, 4, &mut to[..32]);
            nibbles::pack(&q, &mut to[32..]);
        }
    }
}

impl Quantised for Q5K {
    const BITS: u32 = 5;
    const OFFSET: bool = true;

    #[inline(always)]
    unsafe fn weights<L: Lanes>(block: *const u8, part: usize) -> [L::Bytes; 8] {
        // SAFETY: the caller vouches for the block.
        unsafe {
            let at = block.add(k_quants::HEAD + PART * part);
            nibbles::or::<L>(nibbles::unpack::<L>(at.add(32)), nibbles::fifth_bits::<L>(at))
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
