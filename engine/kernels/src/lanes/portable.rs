//! Lanes as plain arrays. Fixed-length loops without branches: the compiler turns them into whatever vectors
//! the target has (SSE2, NEON, simd128). No multiply-add is ever contracted, so the bits are the same everywhere.

use super::{Lanes, LANES};

#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct F32x8([f32; LANES]);

#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct I32x8([i32; LANES]);

#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct U8x32([u8; 4 * LANES]);

#[inline(always)]
fn float(f: impl Fn(usize) -> f32) -> F32x8 {
    let mut r = [0.0; LANES];
    for (i, x) in r.iter_mut().enumerate() {
        *x = f(i);
    }
    F32x8(r)
}

#[inline(always)]
fn int(f: impl Fn(usize) -> i32) -> I32x8 {
    let mut r = [0; LANES];
    for (i, x) in r.iter_mut().enumerate() {
        *x = f(i);
    }
    I32x8(r)
}

#[inline(always)]
fn each_byte(f: impl Fn(usize) -> u8) -> U8x32 {
    let mut r = [0; 4 * LANES];
    for (i, x) in r.iter_mut().enumerate() {
        *x = f(i);
    }
    U8x32(r)
}

/// Exact, subnormals, infinities and NaN included, without a branch.
#[inline(always)]
fn f16_to_f32(h: u16) -> f32 {
    let magnitude = u32::from(h & 0x7fff) << 13;
    // 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals on the way.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let bits = if h & 0x7c00 == 0x7c00 { special } else { scaled };
    f32::from_bits(bits | u32::from(h & 0x8000) << 16)
}

/// # Safety
/// `p` is readable for `N` bytes.
#[inline(always)]
unsafe fn bytes<const N: usize>(p: *const u8) -> [u8; N] {
    // SAFETY: the caller vouches for `N` bytes, and byte arrays need no alignment.
    unsafe { *p.cast() }
}

impl Lanes for F32x8 {
    type Int = I32x8;
    type Bytes = U8x32;
    type Dots = I32x8;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        F32x8([x; LANES])
    }
    #[inline(always)]
    fn from_array(x: [f32; LANES]) -> Self {
        F32x8(x)
    }
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        self.0
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for eight floats.
        F32x8(unsafe { p.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for eight floats.
        unsafe { p.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        float(|i| self.0[i] + b.0[i])
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        float(|i| self.0[i] * b.0[i])
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        float(|i| if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] })
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        float(|i| self.0[i] * b.0[i] + c.0[i])
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let l = self.0;
        ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
    }
    #[inline(always)]
    fn sum_each(v: [Self; LANES]) -> Self {
        float(|i| v[i].sum())
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 bytes.
        let b: [u8; 16] = unsafe { bytes(p) };
        float(|i| f16_to_f32(u16::from_le_bytes([b[2 * i], b[2 * i + 1]])))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 bytes.
        let b: [u8; 16] = unsafe { bytes(p) };
        float(|i| f32::from_bits(u32::from(u16::from_le_bytes([b[2 * i], b[2 * i + 1]])) << 16))
    }
    #[inline(always)]
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 and 8 bytes.
        let (h, l) = unsafe { (bytes::<16>(high), bytes::<8>(low)) };
        float(|i| f32::from_bits(u32::from_le_bytes([0, l[i], h[2 * i], h[2 * i + 1]])))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> I32x8 {
        // SAFETY: the caller vouches for eight bytes.
        let b: [u8; LANES] = unsafe { bytes(p) };
        int(|i| i32::from(b[i]))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> I32x8 {
        // SAFETY: the caller vouches for eight bytes.
        let b: [u8; LANES] = unsafe { bytes(p) };
        int(|i| i32::from(b[i] as i8))
    }
    #[inline(always)]
    fn splat_int(x: i32) -> I32x8 {
        I32x8([x; LANES])
    }
    #[inline(always)]
    fn sub_shl<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        int(|i| a.0[i].wrapping_sub(b.0[i] << N))
    }
    #[inline(always)]
    fn round(self) -> I32x8 {
        // With 2^23 added to its magnitude, a number loses what is behind its point, and ties go to even.
        int(|i| {
            let shift = 8_388_608f32.copysign(self.0[i]);
            (self.0[i] + shift - shift) as i32
        })
    }
    #[inline(always)]
    fn int_array(a: I32x8) -> [i32; LANES] {
        a.0
    }
    #[inline(always)]
    fn float(a: I32x8) -> Self {
        float(|i| a.0[i] as f32)
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> U8x32 {
        // SAFETY: the caller vouches for 32 bytes.
        U8x32(unsafe { bytes(p) })
    }
    #[inline(always)]
    unsafe fn splat_bytes(p: *const u8) -> U8x32 {
        // SAFETY: the caller vouches for four bytes.
        let four: [u8; 4] = unsafe { bytes(p) };
        each_byte(|i| four[i % 4])
    }
    #[inline(always)]
    fn splat_byte(x: u8) -> U8x32 {
        U8x32([x; 4 * LANES])
    }
    #[inline(always)]
    fn shr_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        each_byte(|i| a.0[i] >> N & mask)
    }
    #[inline(always)]
    fn shl_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        each_byte(|i| a.0[i] << N & mask)
    }
    #[inline(always)]
    fn or(a: U8x32, b: U8x32) -> U8x32 {
        each_byte(|i| a.0[i] | b.0[i])
    }
    #[inline(always)]
    fn byte_array(a: U8x32) -> [u8; 4 * LANES] {
        a.0
    }
    #[inline(always)]
    fn dots(w: U8x32, x: U8x32) -> I32x8 {
        Self::add_dots(I32x8([0; LANES]), w, x)
    }
    #[inline(always)]
    fn add_dots(sum: I32x8, w: U8x32, x: U8x32) -> I32x8 {
        let product = |i: usize| i32::from(w.0[i]) * i32::from(x.0[i] as i8);
        int(|i| sum.0[i] + product(4 * i) + product(4 * i + 1) + product(4 * i + 2) + product(4 * i + 3))
    }
    #[inline(always)]
    fn join<const N: i32>(high: I32x8, low: I32x8) -> I32x8 {
        Self::shl_add::<N>(high, low)
    }
    #[inline(always)]
    fn whole(sum: I32x8) -> I32x8 {
        sum
    }
    #[inline(always)]
    fn add_int(a: I32x8, b: I32x8) -> I32x8 {
        int(|i| a.0[i].wrapping_add(b.0[i]))
    }
    #[inline(always)]
    fn shl_add<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        int(|i| (a.0[i] << N).wrapping_add(b.0[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_precision_number_converts_exactly() {
        for h in 0..=u16::MAX {
            let (got, want) = (f16_to_f32(h), half::f16::from_bits(h).to_f32());
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{h:#06x}: {got} != {want}"
            );
        }
    }
}
