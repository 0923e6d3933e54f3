//! Stored keys and values as lanes (see [`kv`](crate::kv) for the planes).

#[cfg(test)]
use crate::kv::KvType;
use crate::kv::{BLOCK, PAGE_TOKENS};
use crate::lanes::{Lanes, LANES};

/// Reading a type of storage.
pub trait Stored {
    /// The type.
    #[cfg(test)]
    const TYPE: KvType;
    /// Elements `d .. d + width` (`width` above 8 is 8) of a row of a head's part of a page, zeros behind them.
    ///
    /// # Safety
    /// `head` is readable for that part, which has `head_dim` columns; `d + width <= head_dim`, `d` a multiple of 8.
    unsafe fn load<L: Lanes>(head: *const u8, head_dim: usize, row: usize, d: usize, width: usize) -> L;
}

/// `p` itself if eight elements of `SIZE` bytes are there, else a copy of the first `n` with zeros behind them.
///
/// # Safety
/// `p` is readable for `min(n, 8) * SIZE` bytes.
#[inline(always)]
unsafe fn eight<const SIZE: usize>(p: *const u8, n: usize, copy: &mut [u8; 16]) -> *const u8 {
    const { assert!(SIZE <= 2) };
    if n >= LANES {
        return p;
    }
    // SAFETY: the caller vouches for fewer than 8 elements.
    unsafe { std::ptr::copy_nonoverlapping(p, copy.as_mut_ptr(), n * SIZE) };
    copy.as_ptr()
}

pub struct F32;

impl Stored for F32 {
    #[cfg(test)]
    const TYPE: KvType = KvType::F32;
    #[inline(always)]
    unsafe fn load<L: Lanes>(head: *const u8, head_dim: usize, row: usize, d: usize, width: usize) -> L {
        // SAFETY: the caller vouches for the elements; pages are aligned for floats.
        unsafe { L::load_up_to(head.cast::<f32>().add(row * head_dim + d), width) }
    }
}

pub struct F24;

impl Stored for F24 {
    #[cfg(test)]
    const TYPE: KvType = KvType::F24;
    #[inline(always)]
    unsafe fn load<L: Lanes>(head: *const u8, head_dim: usize, row: usize, d: usize, width: usize) -> L {
        let at = row * head_dim + d;
        // SAFETY: the caller vouches for the elements of both planes.
        unsafe {
            let low = head.add(2 * PAGE_TOKENS * head_dim + at);
            let (mut a, mut b) = ([0; 16], [0; 16]);
            L::load_f24(eight::<2>(head.add(2 * at), width, &mut a), eight::<1>(low, width, &mut b))
        }
    }
}

pub struct F16;

impl Stored for F16 {
    #[cfg(test)]
    const TYPE: KvType = KvType::F16;
    #[inline(always)]
    unsafe fn load<L: Lanes>(head: *const u8, head_dim: usize, row: usize, d: usize, width: usize) -> L {
        // SAFETY: the caller vouches for the elements.
        unsafe { L::load_f16(eight::<2>(head.add(2 * (row * head_dim + d)), width, &mut [0; 16])) }
    }
}

pub struct Q8;

impl Stored for Q8 {
    #[cfg(test)]
    const TYPE: KvType = KvType::Q8_0;
    #[inline(always)]
    unsafe fn load<L: Lanes>(head: *const u8, head_dim: usize, row: usize, d: usize, width: usize) -> L {
        let blocks = head_dim.div_ceil(BLOCK);
        // SAFETY: the caller vouches for the elements and for the block's scale.
        unsafe {
            let scale = head.add(2 * (row * blocks + d / BLOCK)).cast::<[u8; 2]>().read();
            // Never negative, infinite only where the numbers were: 2^112 moves the exponent's bias.
            let scale =
                f32::from_bits(u32::from(u16::from_le_bytes(scale)) << 13) * f32::from_bits(0x7780_0000);
            let at = 2 * PAGE_TOKENS * blocks + row * head_dim + d;
            L::float(L::load_i8(eight::<1>(head.add(at), width, &mut [0; 16]))).mul(L::splat(scale))
        }
    }
}
