//! Eight float32 lanes: the vocabulary in which every kernel is written once.
//!
//! A kernel is a struct of arguments with a generic body ([`Kernel`]); [`Isa::call`] compiles that body for
//! the instruction set found at run time. One source for all of them keeps the order of every sum the same,
//! so that two instruction sets differ in nothing but whether a multiply-add rounds once or twice.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "wasm32")]
mod simd128;

use crate::activations::DIGITS;

/// Lanes of a vector.
pub const LANES: usize = 8;

/// Eight float32 values and the operations that kernels are made of.
///
/// Implementors may need CPU features: their types are private to this module, so that only [`Isa::call`],
/// which knows that the features are there, can bring them into play.
pub trait Lanes: Copy {
    /// Eight 32-bit integers.
    type Int: Copy;
    /// 32 bytes: four consecutive ones are a lane's.
    type Bytes: Copy;
    /// Sums of products of bytes, see [`Lanes::dots`].
    type Dots: Copy;

    /// All lanes `x`.
    fn splat(x: f32) -> Self;
    /// Lanes from an array.
    #[inline(always)]
    fn from_array(x: [f32; LANES]) -> Self {
        // SAFETY: the array holds eight floats.
        unsafe { Self::load(x.as_ptr()) }
    }
    /// Lanes to an array.
    #[inline(always)]
    fn to_array(self) -> [f32; LANES] {
        let mut r = [0.0; LANES];
        // SAFETY: the array holds eight floats.
        unsafe { self.store(r.as_mut_ptr()) };
        r
    }
    /// # Safety
    /// `p` is readable for eight floats; no alignment is needed.
    unsafe fn load(p: *const f32) -> Self;
    /// # Safety
    /// `p` is writable for eight floats; no alignment is needed.
    unsafe fn store(self, p: *mut f32);
    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self * b`.
    fn mul(self, b: Self) -> Self;
    /// The larger of each lane; either if one is NaN.
    fn max(self, b: Self) -> Self;
    /// `self * b + c`, rounded once or twice as the exactness class says.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `((l0 + l1) + (l2 + l3)) + ((l4 + l5) + (l6 + l7))`.
    fn sum(self) -> f32;
    /// Lane `i` is `v[i].sum()`.
    fn sum_each(v: [Self; LANES]) -> Self;

    /// Eight half-precision numbers.
    /// # Safety
    /// `p` is readable for 16 bytes.
    unsafe fn load_f16(p: *const u8) -> Self;
    /// Eight bfloat16 numbers.
    /// # Safety
    /// `p` is readable for 16 bytes.
    unsafe fn load_bf16(p: *const u8) -> Self;
    /// Eight float32 numbers from their upper 16 bits and the 8 bits below; the lowest 8 are zero.
    /// # Safety
    /// `high` is readable for 16 bytes, `low` for 8.
    unsafe fn load_f24(high: *const u8, low: *const u8) -> Self;
    /// Eight unsigned bytes.
    /// # Safety
    /// `p` is readable for eight bytes.
    unsafe fn load_u8(p: *const u8) -> Self::Int;
    /// Eight signed bytes.
    /// # Safety
    /// `p` is readable for eight bytes.
    unsafe fn load_i8(p: *const u8) -> Self::Int;
    /// All lanes `x`.
    fn splat_int(x: i32) -> Self::Int;
    /// `a - (b << N)`, wrapping.
    fn sub_shl<const N: i32>(a: Self::Int, b: Self::Int) -> Self::Int;
    /// The nearest integers, even ones among equals. Magnitudes are below 2^23.
    fn round(self) -> Self::Int;
    /// Integers to an array.
    fn int_array(a: Self::Int) -> [i32; LANES];
    /// To float32.
    fn float(a: Self::Int) -> Self;

    /// 32 bytes.
    /// # Safety
    /// `p` is readable for 32 bytes.
    unsafe fn load_bytes(p: *const u8) -> Self::Bytes;
    /// Four bytes, the same in all lanes.
    /// # Safety
    /// `p` is readable for four bytes.
    unsafe fn splat_bytes(p: *const u8) -> Self::Bytes;
    /// All bytes `x`.
    fn splat_byte(x: u8) -> Self::Bytes;
    /// Every byte shifted right by `N` bits, then `& mask`, in which the upper `N` bits are clear.
    fn shr_and<const N: i32>(a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Every byte shifted left by `N` bits, then `& mask`, in which the lower `N` bits are clear.
    fn shl_and<const N: i32>(a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Every bit of both.
    fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Bytes to an array.
    fn byte_array(a: Self::Bytes) -> [u8; 4 * LANES];
    /// A lane's four unsigned bytes `w` times its four signed bytes `x`, summed.
    ///
    /// Exact as long as the magnitudes of the products of any two neighbours (the first two or the last two of a
    /// lane), added up over all that goes into a sum, stay below 2^15.
    fn dots(w: Self::Bytes, x: Self::Bytes) -> Self::Dots;
    /// `sum + dots(w, x)`.
    fn add_dots(sum: Self::Dots, w: Self::Bytes, x: Self::Bytes) -> Self::Dots;
    /// `high * 2^N + low`, `N < 15`; the magnitudes stay below 2^31.
    fn join<const N: i32>(high: Self::Dots, low: Self::Dots) -> Self::Int;
    /// The sums themselves.
    fn whole(sum: Self::Dots) -> Self::Int;
    /// `a + b`.
    fn add_int(a: Self::Int, b: Self::Int) -> Self::Int;
    /// `(a << N) + b`.
    fn shl_add<const N: i32>(a: Self::Int, b: Self::Int) -> Self::Int;

    /// The products of the bytes in vectors `FROM .. FROM + N` with a record's `high * 2^8 + middle` and with its `low`,
    /// exactly. [`Lanes::dots`] of `PIECE` vectors must be exact.
    /// # Safety
    /// `x` is a record.
    #[inline(always)]
    unsafe fn products<const FROM: usize, const N: usize, const PIECE: usize>(
        w: &[Self::Bytes; 8],
        x: *const u8,
    ) -> (Self::Int, Self::Int) {
        // SAFETY: the caller vouches for the record.
        unsafe {
            let (mut upper, mut low) = piece::<Self>(w, x, FROM, if PIECE < N { PIECE } else { N });
            let mut s = FROM + PIECE;
            while s < FROM + N {
                let next = piece::<Self>(w, x, s, PIECE);
                (upper, low) = (Self::add_int(upper, next.0), Self::add_int(low, next.1));
                s += PIECE;
            }
            (upper, low)
        }
    }

    /// The products of the bytes in vectors `FROM .. FROM + N` with the first digit of a record alone, exactly, and zeros.
    /// [`Lanes::dots`] of `PIECE` vectors must be exact.
    /// # Safety
    /// `x` is a record.
    #[inline(always)]
    unsafe fn products_of_one<const FROM: usize, const N: usize, const PIECE: usize>(
        w: &[Self::Bytes; 8],
        x: *const u8,
    ) -> (Self::Int, Self::Int) {
        // SAFETY: the caller vouches for the record.
        unsafe {
            let x = x.add(DIGITS[0]);
            let mut sum = Self::whole(dots::<Self>(w, x, FROM, if PIECE < N { PIECE } else { N }));
            let mut s = FROM + PIECE;
            while s < FROM + N {
                sum = Self::add_int(sum, Self::whole(dots::<Self>(w, x, s, PIECE)));
                s += PIECE;
            }
            (sum, Self::splat_int(0))
        }
    }

    /// Asks for the cache line at `p`, which may lie anywhere.
    #[inline(always)]
    fn prefetch(_p: *const u8) {}

    /// Eight zeros.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }

    /// The first `min(n, 8)` floats at `p`, zeros in the other lanes.
    /// # Safety
    /// `p` is readable for that many floats.
    #[inline(always)]
    unsafe fn load_up_to(p: *const f32, n: usize) -> Self {
        if n >= LANES {
            // SAFETY: the caller vouches for eight floats.
            return unsafe { Self::load(p) };
        }
        let mut a = [0.0; LANES];
        // SAFETY: the caller vouches for `n` floats, fewer than eight.
        unsafe { std::ptr::copy_nonoverlapping(p, a.as_mut_ptr(), n) };
        Self::from_array(a)
    }

    /// Stores the first `min(n, 8)` lanes.
    /// # Safety
    /// `p` is writable for that many floats.
    #[inline(always)]
    unsafe fn store_up_to(self, p: *mut f32, n: usize) {
        if n >= LANES {
            // SAFETY: the caller vouches for eight floats.
            return unsafe { self.store(p) };
        }
        // SAFETY: the caller vouches for `n` floats, fewer than eight.
        unsafe { std::ptr::copy_nonoverlapping(self.to_array().as_ptr(), p, n) };
    }

    /// A scalar function on every lane.
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        let mut a = self.to_array();
        for x in &mut a {
            *x = f(*x);
        }
        Self::from_array(a)
    }
}

/// # Safety
/// `x` is a record.
#[inline(always)]
unsafe fn piece<L: Lanes>(w: &[L::Bytes; 8], x: *const u8, from: usize, n: usize) -> (L::Int, L::Int) {
    // SAFETY: the caller vouches for the record.
    unsafe {
        let high = dots::<L>(w, x.add(DIGITS[0]), from, n);
        let middle = dots::<L>(w, x.add(DIGITS[1]), from, n);
        (L::join::<8>(high, middle), L::whole(dots::<L>(w, x.add(DIGITS[2]), from, n)))
    }
}

/// The products of vectors `from .. from + n` with digits.
///
/// # Safety
/// `x` is readable for 32 bytes.
#[inline(always)]
unsafe fn dots<L: Lanes>(w: &[L::Bytes; 8], x: *const u8, from: usize, n: usize) -> L::Dots {
    // SAFETY: the caller vouches for the digits.
    unsafe {
        let mut sum = L::dots(w[from], L::splat_bytes(x.add(4 * from)));
        for s in from + 1..from + n {
            sum = L::add_dots(sum, w[s], L::splat_bytes(x.add(4 * s)));
        }
        sum
    }
}

/// A computation written for any [`Lanes`]. Implementations and all they call are `#[inline(always)]`, or
/// they would be compiled without the features that [`Isa::call`] turns on; so would closures, also those that
/// are given to functions of the standard library.
pub trait Kernel {
    /// What it returns.
    type Out;
    /// The computation.
    fn run<L: Lanes>(self) -> Self::Out;
}

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    #[cfg(target_arch = "wasm32")]
    Simd128,
}

impl Isa {
    /// Plain Rust, vectorised by the compiler; the same bits on every target.
    pub const PORTABLE: Isa = Isa(Kind::Portable);

    /// The best instruction set of this processor.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Isa(Kind::Vnni);
            }
            return Isa(Kind::Avx2);
        }
        #[cfg(target_arch = "aarch64")]
        return Isa(if std::arch::is_aarch64_feature_detected!("dotprod") {
            Kind::NeonDot
        } else {
            Kind::Neon
        });
        #[cfg(target_arch = "wasm32")]
        return Isa(Kind::Simd128);
        #[allow(unreachable_code)]
        Isa::PORTABLE
    }

    /// For descriptions.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2+FMA+F16C",
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => "AVX2+FMA+F16C+AVX512VNNI",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "NEON",
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot => "NEON+DotProd",
            #[cfg(target_arch = "wasm32")]
            Kind::Simd128 => "SIMD128",
        }
    }

    /// Part of the exactness class: whether a multiply-add rounds once.
    pub fn rounding(self) -> &'static str {
        match self.0 {
            Kind::Portable => "nofma",
            #[cfg(target_arch = "wasm32")]
            Kind::Simd128 => "nofma",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 | Kind::Vnni => "fma",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon | Kind::NeonDot => "fma",
        }
    }

    /// Runs a kernel compiled for this instruction set.
    #[inline]
    pub fn call<K: Kernel>(self, kernel: K) -> K::Out {
        match self.0 {
            Kind::Portable => plain(kernel),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kind::Avx2` is private and made by `detect` alone, after it found the features.
            Kind::Avx2 => unsafe { avx2::call(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, with those of AVX-512.
            Kind::Vnni => unsafe { avx2::call_vnni(kernel) },
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => neon::call(kernel),
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above, with DotProd.
            Kind::NeonDot => unsafe { neon::call_dot(kernel) },
            #[cfg(target_arch = "wasm32")]
            Kind::Simd128 => simd128::call(kernel),
        }
    }
}

/// Runs a kernel with plain lanes; in WebAssembly with its vectors, which every engine of it has.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
#[inline]
fn plain<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<portable::F32x8>()
}

#[cfg(test)]
pub fn all_isas() -> Vec<Isa> {
    let mut all = vec![Isa::PORTABLE];
    #[cfg(target_arch = "x86_64")]
    if Isa::detect() == Isa(Kind::Vnni) {
        all.push(Isa(Kind::Avx2));
    }
    #[cfg(target_arch = "aarch64")]
    if Isa::detect() == Isa(Kind::NeonDot) {
        all.push(Isa(Kind::Neon));
    }
    if Isa::detect() != Isa::PORTABLE {
        all.push(Isa::detect());
    }
    all
}
