//! Lanes in two NEON registers, multiply-adds fused: the same bits as AVX2's.
//!
//! SAFETY of the intrinsics and instructions: each needs NEON, which every processor has that this is compiled for;
//! [`SignedDot`] needs DotProd, and only [`call_dot`] uses it, whose caller has checked for it.

use super::{Kernel, Lanes, LANES};
use std::arch::aarch64::*;
use std::arch::asm;
use std::marker::PhantomData;

/// How products of bytes are summed. Weights are below 128: [`Lanes::dots`] asks for that.
pub(super) trait Dot: Copy {
    /// See [`Lanes::add_dots`]; half the lanes.
    unsafe fn add_dots(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t;
    /// See [`Lanes::whole`].
    unsafe fn whole(sum: int32x4_t) -> int32x4_t;
}

/// Sums are eight 16-bit ones of two products each.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Dot for Pairs {
    #[inline(always)]
    unsafe fn add_dots(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: see the module. Nothing wraps: pairs of products stay below 2^15.
        unsafe {
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            let pairs = vpaddq_s16(low, vmull_high_s8(w, x));
            vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(sum), pairs))
        }
    }
    #[inline(always)]
    unsafe fn whole(sum: int32x4_t) -> int32x4_t {
        // SAFETY: see the module.
        unsafe { vpaddlq_s16(vreinterpretq_s16_s32(sum)) }
    }
}

/// Sums are four 32-bit ones, by one instruction of DotProd.
#[derive(Clone, Copy)]
pub(super) struct SignedDot;

impl Dot for SignedDot {
    #[inline(always)]
    unsafe fn add_dots(mut sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the caller has DotProd. The intrinsic is not stable.
        unsafe {
            asm!("sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b", sum = inout(vreg) sum, w = in(vreg) w, x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags));
        }
        sum
    }
    #[inline(always)]
    unsafe fn whole(sum: int32x4_t) -> int32x4_t {
        sum
    }
}

#[derive(Clone, Copy)]
pub(super) struct F32x8<D>(float32x4_t, float32x4_t, PhantomData<D>);

#[derive(Clone, Copy)]
pub(super) struct I32x8(int32x4_t, int32x4_t);

#[derive(Clone, Copy)]
pub(super) struct U8x32(uint8x16_t, uint8x16_t);

/// A kernel for any processor with NEON.
pub(super) fn call<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8<Pairs>>()
}

/// # Safety
/// The processor has DotProd.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn call_dot<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8<SignedDot>>()
}

/// Four half-precision numbers, in the lower or the upper half.
#[inline(always)]
unsafe fn half<const UPPER: bool>(h: uint16x8_t) -> float32x4_t {
    let r: float32x4_t;
    // SAFETY: see the module. The intrinsics want more than NEON, which the instructions do not.
    unsafe {
        if UPPER {
            asm!("fcvtl2 {r:v}.4s, {h:v}.8h", r = lateout(vreg) r, h = in(vreg) h,
                options(pure, nomem, nostack, preserves_flags));
        } else {
            asm!("fcvtl {r:v}.4s, {h:v}.4h", r = lateout(vreg) r, h = in(vreg) h,
                options(pure, nomem, nostack, preserves_flags));
        }
    }
    r
}

/// Sixteen bits each, widened and shifted.
#[inline(always)]
unsafe fn widen<const SHIFT: i32>(h: uint16x8_t) -> [uint32x4_t; 2] {
    // SAFETY: see the module.
    unsafe { [vshll_n_u16::<SHIFT>(vget_low_u16(h)), vshll_high_n_u16::<SHIFT>(h)] }
}

impl<D: Dot> F32x8<D> {
    #[inline(always)]
    fn bits(b: [uint32x4_t; 2]) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vreinterpretq_f32_u32(b[0]), vreinterpretq_f32_u32(b[1]), PhantomData) }
    }
}

impl<D: Dot> Lanes for F32x8<D> {
    type Int = I32x8;
    type Bytes = U8x32;
    type Dots = I32x8;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vdupq_n_f32(x), vdupq_n_f32(x), PhantomData) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see the module; the caller vouches for eight floats.
        unsafe { F32x8(vld1q_f32(p), vld1q_f32(p.add(4)), PhantomData) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see the module; the caller vouches for eight floats.
        unsafe {
            vst1q_f32(p, self.0);
            vst1q_f32(p.add(4), self.1);
        }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vaddq_f32(self.0, b.0), vaddq_f32(self.1, b.1), PhantomData) }
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vmulq_f32(self.0, b.0), vmulq_f32(self.1, b.1), PhantomData) }
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: see the module. By comparison, as elsewhere: the second where one is NaN.
        unsafe {
            let (low, high) = (vcgtq_f32(self.0, b.0), vcgtq_f32(self.1, b.1));
            F32x8(vbslq_f32(low, self.0, b.0), vbslq_f32(high, self.1, b.1), PhantomData)
        }
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vfmaq_f32(c.0, self.0, b.0), vfmaq_f32(c.1, self.1, b.1), PhantomData) }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the module.
        unsafe {
            let pairs = vpaddq_f32(self.0, self.1);
            vpadds_f32(vget_low_f32(vpaddq_f32(pairs, pairs)))
        }
    }
    #[inline(always)]
    fn sum_each(v: [Self; LANES]) -> Self {
        // SAFETY: see the module.
        unsafe {
            let pairs = |i: usize| vpaddq_f32(v[i].0, v[i].1);
            let fours = |i: usize| vpaddq_f32(pairs(i), pairs(i + 1));
            F32x8(vpaddq_f32(fours(0), fours(2)), vpaddq_f32(fours(4), fours(6)), PhantomData)
        }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        unsafe {
            let h = vreinterpretq_u16_u8(vld1q_u8(p));
            F32x8(half::<false>(h), half::<true>(h), PhantomData)
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        Self::bits(unsafe { widen::<16>(vreinterpretq_u16_u8(vld1q_u8(p))) })
    }
    #[inline(always)]
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 and 8 bytes.
        unsafe {
            let high = widen::<16>(vreinterpretq_u16_u8(vld1q_u8(high)));
            let low = widen::<0>(vshll_n_u8::<8>(vld1_u8(low)));
            Self::bits([vorrq_u32(high[0], low[0]), vorrq_u32(high[1], low[1])])
        }
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> I32x8 {
        // SAFETY: see the module; the caller vouches for eight bytes.
        unsafe {
            let wide = widen::<0>(vmovl_u8(vld1_u8(p)));
            I32x8(vreinterpretq_s32_u32(wide[0]), vreinterpretq_s32_u32(wide[1]))
        }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> I32x8 {
        // SAFETY: see the module; the caller vouches for eight bytes.
        unsafe {
            let wide = vmovl_s8(vld1_s8(p.cast()));
            I32x8(vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide))
        }
    }
    #[inline(always)]
    fn splat_int(x: i32) -> I32x8 {
        // SAFETY: see the module.
        unsafe { I32x8(vdupq_n_s32(x), vdupq_n_s32(x)) }
    }
    #[inline(always)]
    fn sub_shl<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        // SAFETY: see the module.
        unsafe { I32x8(vsubq_s32(a.0, vshlq_n_s32::<N>(b.0)), vsubq_s32(a.1, vshlq_n_s32::<N>(b.1))) }
    }
    #[inline(always)]
    fn round(self) -> I32x8 {
        // SAFETY: see the module.
        unsafe { I32x8(vcvtnq_s32_f32(self.0), vcvtnq_s32_f32(self.1)) }
    }
    #[inline(always)]
    fn int_array(a: I32x8) -> [i32; LANES] {
        let mut r = [0; LANES];
        // SAFETY: see the module; the array holds eight numbers.
        unsafe {
            vst1q_s32(r.as_mut_ptr(), a.0);
            vst1q_s32(r.as_mut_ptr().add(4), a.1);
        }
        r
    }
    #[inline(always)]
    fn float(a: I32x8) -> Self {
        // SAFETY: see the module.
        unsafe { F32x8(vcvtq_f32_s32(a.0), vcvtq_f32_s32(a.1), PhantomData) }
    }
    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch reads nothing and faults nowhere.
        unsafe { asm!("prfm pldl1keep, [{p}]", p = in(reg) p, options(readonly, nostack, preserves_flags)) }
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> U8x32 {
        // SAFETY: see the module; the caller vouches for 32 bytes.
        unsafe { U8x32(vld1q_u8(p), vld1q_u8(p.add(16))) }
    }
    #[inline(always)]
    unsafe fn splat_bytes(p: *const u8) -> U8x32 {
        // SAFETY: see the module; the caller vouches for four bytes.
        unsafe {
            let x = vreinterpretq_u8_u32(vdupq_n_u32(p.cast::<u32>().read_unaligned()));
            U8x32(x, x)
        }
    }
    #[inline(always)]
    fn splat_byte(x: u8) -> U8x32 {
        // SAFETY: see the module.
        unsafe { U8x32(vdupq_n_u8(x), vdupq_n_u8(x)) }
    }
    #[inline(always)]
    fn shr_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        // SAFETY: see the module. By a register: there is no instruction for a shift right by zero.
        unsafe {
            let (by, mask) = (vdupq_n_s8(-(N as i8)), vdupq_n_u8(mask));
            U8x32(vandq_u8(vshlq_u8(a.0, by), mask), vandq_u8(vshlq_u8(a.1, by), mask))
        }
    }
    #[inline(always)]
    fn shl_and<const N: i32>(a: U8x32, mask: u8) -> U8x32 {
        // SAFETY: see the module.
        unsafe {
            let mask = vdupq_n_u8(mask);
            U8x32(vandq_u8(vshlq_n_u8::<N>(a.0), mask), vandq_u8(vshlq_n_u8::<N>(a.1), mask))
        }
    }
    #[inline(always)]
    fn or(a: U8x32, b: U8x32) -> U8x32 {
        // SAFETY: see the module.
        unsafe { U8x32(vorrq_u8(a.0, b.0), vorrq_u8(a.1, b.1)) }
    }
    #[inline(always)]
    fn byte_array(a: U8x32) -> [u8; 4 * LANES] {
        let mut r = [0; 4 * LANES];
        // SAFETY: see the module; the array holds 32 bytes.
        unsafe {
            vst1q_u8(r.as_mut_ptr(), a.0);
            vst1q_u8(r.as_mut_ptr().add(16), a.1);
        }
        r
    }
    #[inline(always)]
    fn dots(w: U8x32, x: U8x32) -> I32x8 {
        Self::add_dots(Self::splat_int(0), w, x)
    }
    #[inline(always)]
    fn add_dots(sum: I32x8, w: U8x32, x: U8x32) -> I32x8 {
        // SAFETY: see the module; whoever names `D` has what it needs.
        unsafe {
            let signed = |a| vreinterpretq_s8_u8(a);
            I32x8(D::add_dots(sum.0, signed(w.0), signed(x.0)), D::add_dots(sum.1, signed(w.1), signed(x.1)))
        }
    }
    #[inline(always)]
    fn join<const N: i32>(high: I32x8, low: I32x8) -> I32x8 {
        Self::shl_add::<N>(Self::whole(high), Self::whole(low))
    }
    #[inline(always)]
    fn whole(sum: I32x8) -> I32x8 {
        // SAFETY: as above.
        unsafe { I32x8(D::whole(sum.0), D::whole(sum.1)) }
    }
    #[inline(always)]
    fn add_int(a: I32x8, b: I32x8) -> I32x8 {
        // SAFETY: see the module.
        unsafe { I32x8(vaddq_s32(a.0, b.0), vaddq_s32(a.1, b.1)) }
    }
    #[inline(always)]
    fn shl_add<const N: i32>(a: I32x8, b: I32x8) -> I32x8 {
        // SAFETY: see the module.
        unsafe { I32x8(vaddq_s32(vshlq_n_s32::<N>(a.0), b.0), vaddq_s32(vshlq_n_s32::<N>(a.1), b.1)) }
    }
}
