//! Lanes in two vectors of WebAssembly; multiply-adds round twice: the same bits as plain Rust.
//!
//! SAFETY of the intrinsics: [`call`] turns on the vectors, which every engine that runs this has.

use super::{Kernel, Lanes, LANES};
use crate::activations::DIGITS;
use std::arch::wasm32::*;

#[derive(Clone, Copy)]
pub(super) struct F32x8(v128, v128);

#[derive(Clone, Copy)]
pub(super) struct I32x8(v128, v128);

#[derive(Clone, Copy)]
pub(super) struct U8x32(v128, v128);

/// Sums of two products each, in the order of the bytes.
#[derive(Clone, Copy)]
pub(super) struct Sums([v128; 4]);

/// Runs a kernel with these lanes.
#[target_feature(enable = "simd128")]
pub(super) fn call<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8>()
}

/// Four half-precision numbers, one in the lower bits of each lane. As plain lanes do it.
#[inline(always)]
fn half(h: v128) -> v128 {
    let magnitude = i32x4_shl(v128_and(h, i32x4_splat(0x7fff)), 13);
    let scaled = f32x4_mul(magnitude, f32x4_splat(f32::from_bits(0x7780_0000)));
    let special = v128_or(magnitude, i32x4_splat(0x7f80_0000));
    let exponent = i32x4_splat(0x7c00);
    let bits = v128_bitselect(special, scaled, i32x4_eq(v128_and(h, exponent), exponent));
    v128_or(bits, i32x4_shl(v128_and(h, i32x4_splat(0x8000)), 16))
}

/// Four bytes in all lanes, as sixteen bits each: lane `i` has byte `i % 4`.
///
/// # Safety
/// `p` is readable for four bytes.
#[inline(always)]
unsafe fn splat_wide(p: *const u8) -> v128 {
    // SAFETY: the caller vouches for four bytes.
    i16x8_extend_low_i8x16(unsafe { v128_load32_splat(p.cast()) })
}

/// `sum` plus products of bytes with numbers of sixteen bits.
#[inline(always)]
fn add(sum: &mut [v128; 4], w: U8x32, x: v128) {
    let w = [
        u16x8_extend_low_u8x16(w.0),
        u16x8_extend_high_u8x16(w.0),
        u16x8_extend_low_u8x16(w.1),
        u16x8_extend_high_u8x16(w.1),
    ];
    for (sum, w) in sum.iter_mut().zip(w) {
        *sum = i32x4_add(*sum, i32x4_dot_i16x8(w, x));
    }
}

/// Sums of the two neighbours in `a`, then of those in `b`.
#[inline(always)]
fn pairs(a: v128, b: v128) -> v128 {
    i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(a, b), i32x4_shuffle::<1, 3, 5, 7>(a, b))
}

/// The same of floats.
#[inline(always)]
fn float_pairs(a: v128, b: v128) -> v128 {
    f32x4_add(i32x4_shuffle::<0, 2, 4, 6>(a, b), i32x4_shuffle::<1, 3, 5, 7>(a, b))
}

/// Sums of the four in the halves of `a`, then of `b`.
#[inline(always)]
fn fours(a: F32x8, b: F32x8) -> v128 {
    float_pairs(float_pairs(a.0, a.1), float_pairs(b.0, b.1))
}

/// The nearest integers.
#[inline(always)]
fn whole(x: v128) -> v128 {
    i32x4_trunc_sat_f32x4(f32x4_nearest(x))
}

impl Lanes for F32x8 {
    type Int = I32x8;
    type Bytes = U8x32;
    type Dots = Sums;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        F32x8(f32x4_splat(x), f32x4_splat(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for eight floats.
        unsafe { F32x8(v128_load(p.cast()), v128_load(p.add(4).cast())) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for eight floats.
        unsafe {
            v128_store(p.cast(), self.0);
            v128_store(p.add(4).cast(), self.1);
        }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        F32x8(f32x4_add(self.0, b.0), f32x4_add(self.1, b.1))
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        F32x8(f32x4_mul(self.0, b.0), f32x4_mul(self.1, b.1))
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // By comparison: the second where one is NaN.
        F32x8(f32x4_pmax(b.0, self.0), f32x4_pmax(b.1, self.1))
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.mul(b).add(c)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let l = self.to_array();
        ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
    }
    #[inline(always)]
    fn sum_each(v: [Self; LANES]) -> Self {
        let (a, b) = (fours(v[0], v[1]), fours(v[2], v[3]));
        let (c, d) = (fours(v[4], v[5]), fours(v[6], v[7]));
        F32x8(float_pairs(a, b), float_pairs(c, d))
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 bytes.
        let h = unsafe { v128_load(p.cast()) };
        F32x8(half(u32x4_extend_low_u16x8(h)), half(u32x4_extend_high_u16x8(h)))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 bytes.
        let h = unsafe { v128_load(p.cast()) };
        F32x8(i32x4_shl(u32x4_extend_low_u16x8(h), 16), i32x4_shl(u32x4_extend_high_u16x8(h), 16))
    }
    #[inline(always)]
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 and 8 bytes.
        let (high, low) = unsafe { (Self::load_bf16(high), Self::load_u8(low)) };
        F32x8(v128_or(high.0, i32x4_shl(low.0, 8)), v128_or(high.1, i32x4_shl(low.1, 8)))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> I32x8 {
        // SAFETY: the caller vouches for eight bytes.
        let wide = unsafe { i16x8_load_extend_u8x8(p) };
        I32x8(u32x4_extend_low_u16x8(wide), u32x4_extend_high_u16x8(wide))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> I32x8 {
        // SAFETY: the caller vouches for eight bytes.
        let wide = unsafe { i16x8_load_extend_i8x8(p.cast()) };
        I32x8(i32x4_extend_low_i16x8(wide), i32x4_extend_high_i16x8(wide))
    }
    #[inline(always)]
    fn splat_int(x: i32) -> I32x8 {
        I32x8(i32x4_splat(x), i32x4_splat(x))
    }
    #[inline(always)]
    fn sub_shl<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        I32x8(i32x4_sub(a.0, i32x4_shl(b.0, N as u32)), i32x4_sub(a.1, i32x4_shl(b.1, N as u32)))
    }
    #[inline(always)]
    fn round(self) -> I32x8 {
        I32x8(whole(self.0), whole(self.1))
    }
    #[inline(always)]
    fn int_array(a: I32x8) -> [i32; LANES] {
        let mut r = [0; LANES];
        // SAFETY: the array holds eight numbers.
        unsafe { F32x8(a.0, a.1).store(r.as_mut_ptr().cast()) };
        r
    }
    #[inline(always)]
    fn float(a: I32x8) -> Self {
        F32x8(f32x4_convert_i32x4(a.0), f32x4_convert_i32x4(a.1))
    }

    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> U8x32 {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { U8x32(v128_load(p.cast()), v128_load(p.add(16).cast())) }
    }
    #[inline(always)]
    unsafe fn splat_bytes(p: *const u8) -> U8x32 {
        // SAFETY: the caller vouches for four bytes.
        let x = unsafe { v128_load32_splat(p.cast()) };
        U8x32(x, x)
    }
    #[inline(always)]
    fn splat_byte(x: u8) -> U8x32 {
        U8x32(u8x16_splat(x), u8x16_splat(x))
    }
    #[inline(always)]
    fn shr_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        // Sixteen bits at a time: what comes in from a neighbour is masked away.
        let (by, mask) = (N as u32, u8x16_splat(mask));
        U8x32(v128_and(u16x8_shr(a.0, by), mask), v128_and(u16x8_shr(a.1, by), mask))
    }
    #[inline(always)]
    fn shl_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        let (by, mask) = (N as u32, u8x16_splat(mask));
        U8x32(v128_and(u16x8_shl(a.0, by), mask), v128_and(u16x8_shl(a.1, by), mask))
    }
    #[inline(always)]
    fn or(a: U8x32, b: U8x32) -> U8x32 {
        U8x32(v128_or(a.0, b.0), v128_or(a.1, b.1))
    }
    #[inline(always)]
    fn byte_array(a: U8x32) -> [u8; 4 * LANES] {
        let mut r = [0; 4 * LANES];
        // SAFETY: the array holds 32 bytes.
        unsafe { F32x8(a.0, a.1).store(r.as_mut_ptr().cast()) };
        r
    }
    #[inline(always)]
    fn dots(w: U8x32, x: U8x32) -> Sums {
        Self::add_dots(Sums([i32x4_splat(0); 4]), w, x)
    }
    #[inline(always)]
    fn add_dots(mut sum: Sums, w: U8x32, x: U8x32) -> Sums {
        let x = [
            i16x8_extend_low_i8x16(x.0),
            i16x8_extend_high_i8x16(x.0),
            i16x8_extend_low_i8x16(x.1),
            i16x8_extend_high_i8x16(x.1),
        ];
        let w = [
            u16x8_extend_low_u8x16(w.0),
            u16x8_extend_high_u8x16(w.0),
            u16x8_extend_low_u8x16(w.1),
            u16x8_extend_high_u8x16(w.1),
        ];
        for (sum, (w, x)) in sum.0.iter_mut().zip(w.into_iter().zip(x)) {
            *sum = i32x4_add(*sum, i32x4_dot_i16x8(w, x));
        }
        sum
    }
    #[inline(always)]
    fn join<const N: i32>(high: Sums, low: Sums) -> I32x8 {
        Self::shl_add::<N>(Self::whole(high), Self::whole(low))
    }
    #[inline(always)]
    fn whole(sum: Sums) -> I32x8 {
        let s = sum.0;
        I32x8(pairs(s[0], s[1]), pairs(s[2], s[3]))
    }
    #[inline(always)]
    fn add_int(a: I32x8, b: I32x8) -> I32x8 {
        I32x8(i32x4_add(a.0, b.0), i32x4_add(a.1, b.1))
    }
    #[inline(always)]
    fn shl_add<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        I32x8(i32x4_add(i32x4_shl(a.0, N as u32), b.0), i32x4_add(i32x4_shl(a.1, N as u32), b.1))
    }

    /// The two upper digits are one number of sixteen bits: two multiplications instead of three.
    #[inline(always)]
    unsafe fn products<const FROM: usize, const N: usize, const PIECE: usize>(
        w: &[U8x32; 8],
        x: *const u8,
    ) -> (I32x8, I32x8) {
        let (mut upper, mut low) = ([i32x4_splat(0); 4], [i32x4_splat(0); 4]);
        for s in FROM..FROM + N {
            // SAFETY: the caller vouches for the record.
            unsafe {
                let (high, middle) =
                    (splat_wide(x.add(DIGITS[0] + 4 * s)), splat_wide(x.add(DIGITS[1] + 4 * s)));
                add(&mut upper, w[s], i16x8_add(i16x8_shl(high, 8), middle));
                add(&mut low, w[s], splat_wide(x.add(DIGITS[2] + 4 * s)));
            }
        }
        (Self::whole(Sums(upper)), Self::whole(Sums(low)))
    }
}
