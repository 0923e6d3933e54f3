//! Lanes in one AVX2 register, multiply-adds fused.
//!
//! SAFETY of the intrinsics: each needs AVX2, FMA or F16C. `F32x8` is visible to `lanes` alone, and there
//! only [`call`] and [`call_vnni`] use it, whose callers have checked for all that they need.

use super::{Kernel, Lanes, LANES};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// How products of bytes are summed.
pub(super) trait Dot: Copy {
    /// See [`Lanes::dots`].
    unsafe fn dots(w: __m256i, x: __m256i) -> __m256i;
    /// See [`Lanes::add_dots`].
    unsafe fn add_dots(sum: __m256i, w: __m256i, x: __m256i) -> __m256i;
    /// See [`Lanes::join`].
    unsafe fn join<const N: i32>(high: __m256i, low: __m256i) -> __m256i;
    /// See [`Lanes::whole`].
    unsafe fn whole(sum: __m256i) -> __m256i;
}

/// Sums are sixteen 16-bit ones of two products each.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Dot for Pairs {
    #[inline(always)]
    unsafe fn dots(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see the module. Nothing saturates: pairs of products stay below 2^15.
        unsafe { _mm256_maddubs_epi16(w, x) }
    }
    #[inline(always)]
    unsafe fn add_dots(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x)) }
    }
    #[inline(always)]
    unsafe fn join<const N: i32>(high: __m256i, low: __m256i) -> __m256i {
        const { assert!(N < 15) };
        // SAFETY: see the module.
        unsafe {
            let high = _mm256_madd_epi16(high, _mm256_set1_epi16(1 << N));
            _mm256_add_epi32(high, _mm256_madd_epi16(low, _mm256_set1_epi16(1)))
        }
    }
    #[inline(always)]
    unsafe fn whole(sum: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_madd_epi16(sum, _mm256_set1_epi16(1)) }
    }
}

/// Sums are eight 32-bit ones, by one instruction of AVX-512 VNNI on short vectors.
#[derive(Clone, Copy)]
pub(super) struct Vnni;

impl Dot for Vnni {
    #[inline(always)]
    unsafe fn dots(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller has AVX-512 VNNI and VL.
        unsafe { _mm256_dpbusd_epi32(_mm256_setzero_si256(), w, x) }
    }
    #[inline(always)]
    unsafe fn add_dots(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_dpbusd_epi32(sum, w, x) }
    }
    #[inline(always)]
    unsafe fn join<const N: i32>(high: __m256i, low: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_add_epi32(_mm256_slli_epi32::<N>(high), low) }
    }
    #[inline(always)]
    unsafe fn whole(sum: __m256i) -> __m256i {
        sum
    }
}

#[derive(Clone, Copy)]
pub(super) struct F32x8<D>(__m256, PhantomData<D>);

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn call<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8<Pairs>>()
}

/// # Safety
/// The processor has AVX2, FMA, F16C and the parts F, VL and VNNI of AVX-512.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512vl,avx512vnni")]
pub(super) unsafe fn call_vnni<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8<Vnni>>()
}

impl<D: Dot> Lanes for F32x8<D> {
    type Int = __m256i;
    type Bytes = __m256i;
    type Dots = __m256i;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_set1_ps(x) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see the module; the caller vouches for eight floats.
        F32x8(unsafe { _mm256_loadu_ps(p) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see the module; the caller vouches for eight floats.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_add_ps(self.0, b.0) }, PhantomData)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_mul_ps(self.0, b.0) }, PhantomData)
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_max_ps(self.0, b.0) }, PhantomData)
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) }, PhantomData)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: see the module.
        unsafe {
            let pairs = _mm256_hadd_ps(self.0, self.0);
            let fours = _mm256_hadd_ps(pairs, pairs);
            _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps::<1>(fours)))
        }
    }
    #[inline(always)]
    fn sum_each(v: [Self; LANES]) -> Self {
        // SAFETY: see the module.
        unsafe {
            let a = _mm256_hadd_ps(_mm256_hadd_ps(v[0].0, v[1].0), _mm256_hadd_ps(v[2].0, v[3].0));
            let b = _mm256_hadd_ps(_mm256_hadd_ps(v[4].0, v[5].0), _mm256_hadd_ps(v[6].0, v[7].0));
            F32x8(
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)),
                PhantomData,
            )
        }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        F32x8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)), PhantomData)
        }
    }
    #[inline(always)]
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 and 8 bytes.
        unsafe {
            let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(high.cast())));
            let low = _mm256_slli_epi32::<8>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(low.cast())));
            F32x8(_mm256_castsi256_ps(_mm256_or_si256(high, low)), PhantomData)
        }
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m256i {
        // SAFETY: see the module; the caller vouches for eight bytes.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> __m256i {
        // SAFETY: see the module; the caller vouches for eight bytes.
        unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())) }
    }
    #[inline(always)]
    fn splat_int(x: i32) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_set1_epi32(x) }
    }
    #[inline(always)]
    fn sub_shl<const N: i32>(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_sub_epi32(a, _mm256_slli_epi32::<N>(b)) }
    }
    #[inline(always)]
    fn round(self) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_cvtps_epi32(self.0) }
    }
    #[inline(always)]
    fn int_array(a: __m256i) -> [i32; LANES] {
        let mut r = [0; LANES];
        // SAFETY: see the module; the array holds 32 bytes.
        unsafe { _mm256_storeu_si256(r.as_mut_ptr().cast(), a) };
        r
    }
    #[inline(always)]
    fn float(a: __m256i) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_cvtepi32_ps(a) }, PhantomData)
    }
    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> __m256i {
        // SAFETY: see the module; the caller vouches for 32 bytes.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn splat_bytes(p: *const u8) -> __m256i {
        // SAFETY: see the module; the caller vouches for four bytes.
        unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    fn splat_byte(x: u8) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_set1_epi8(x as i8) }
    }
    #[inline(always)]
    fn shr_and<const N: i32>(a: __m256i, mask: u8) -> __m256i {
        // SAFETY: see the module. What comes in from a neighbour is masked away.
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<N>(a), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn shl_and<const N: i32>(a: __m256i, mask: u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_and_si256(_mm256_slli_epi16::<N>(a), _mm256_set1_epi8(mask as i8)) }
    }
    #[inline(always)]
    fn or(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn byte_array(a: __m256i) -> [u8; 4 * LANES] {
        let mut r = [0; 4 * LANES];
        // SAFETY: see the module; the array holds 32 bytes.
        unsafe { _mm256_storeu_si256(r.as_mut_ptr().cast(), a) };
        r
    }
    #[inline(always)]
    fn dots(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: see the module; whoever names `D` has what it needs.
        unsafe { D::dots(w, x) }
    }
    #[inline(always)]
    fn add_dots(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { D::add_dots(sum, w, x) }
    }
    #[inline(always)]
    fn join<const N: i32>(high: __m256i, low: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { D::join::<N>(high, low) }
    }
    #[inline(always)]
    fn whole(sum: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { D::whole(sum) }
    }
    #[inline(always)]
    fn add_int(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn shl_add<const N: i32>(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_add_epi32(_mm256_slli_epi32::<N>(a), b) }
    }
}
