//! Lanes in one AVX2 register, multiply-adds fused.
//!
//! SAFETY of the intrinsics: each needs AVX2, FMA or F16C. `F32x8` is visible to `lanes` alone, and there
//! only [`call`] uses it, whose caller has checked for all three.

use super::{Kernel, Lanes, LANES};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct F32x8(__m256);

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn call<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<F32x8>()
}

impl Lanes for F32x8 {
    type Int = __m256i;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    fn from_array(x: [f32; LANES]) -> Self {
        // SAFETY: see the module; the array holds eight floats.
        F32x8(unsafe { _mm256_loadu_ps(x.as_ptr()) })
    }
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut r = [0.0; LANES];
        // SAFETY: see the module; the array holds eight floats.
        unsafe { _mm256_storeu_ps(r.as_mut_ptr(), self.0) };
        r
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see the module; the caller vouches for eight floats.
        F32x8(unsafe { _mm256_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see the module; the caller vouches for eight floats.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
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
            F32x8(_mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)))
        }
    }

    #[inline(always)]
    unsafe fn load_f16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        F32x8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 bytes.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self {
        // SAFETY: see the module; the caller vouches for 16 and 8 bytes.
        unsafe {
            let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(high.cast())));
            let low = _mm256_slli_epi32::<8>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(low.cast())));
            F32x8(_mm256_castsi256_ps(_mm256_or_si256(high, low)))
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
    unsafe fn load_int(p: *const u8) -> __m256i {
        // SAFETY: see the module; the caller vouches for 32 bytes.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    fn and(a: __m256i, mask: i32) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_and_si256(a, _mm256_set1_epi32(mask)) }
    }
    #[inline(always)]
    fn shr(a: __m256i, n: u32) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(n as i32)) }
    }
    #[inline(always)]
    fn add_shl(a: __m256i, b: __m256i, n: u32) -> __m256i {
        // SAFETY: see the module.
        unsafe { _mm256_add_epi32(a, _mm256_sll_epi32(b, _mm_cvtsi32_si128(n as i32))) }
    }
    #[inline(always)]
    fn float(a: __m256i) -> Self {
        // SAFETY: see the module.
        F32x8(unsafe { _mm256_cvtepi32_ps(a) })
    }
    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
}
