//! Activations as products want them.
//!
//! Plain weights read float32 tiles. Quantised ones read integers: every 32 columns of a token have one scale, a power
//! of two, and numbers of 23 bits and a sign, `x = scale * q` with `|q| < 2^23`, each cut into three signed digits of
//! base 256, `q = high * 2^16 + middle * 2^8 + low`. Products of bytes are then summed exactly, whatever the order.
//! The rounding is less than a four-millionth (2^-22) of the largest magnitude among the 32: float32's own spacing
//! near that number, or twice it.

use crate::formats::UNIT;
use crate::lanes::{Isa, Kernel, Lanes, LANES};

/// From this many tokens on, float32 activations are laid out in tiles.
pub(crate) const TILED: usize = 5;

/// Tokens of a tile of float32 activations, whose sums with two vectors of rows fill the registers beside weights and
/// activations.
pub const TILE: usize = 6;

/// Tokens of a tile of records: a multiple of [`TILE`], so that one range of tokens is whole tiles of either kind, and
/// not fewer than the engine's passes have, so that they go over the weights once.
pub const RECORD_TILE: usize = 66;

/// Bytes of a record: a token's digits in 32 columns and what belongs to them.
pub const RECORD: usize = 128;

/// Where the digits lie: 32 high ones, 32 middle ones, 32 low ones.
pub(crate) const DIGITS: [usize; 3] = [0, 32, 64];
/// The scale, float32.
pub(crate) const SCALE: usize = 96;
/// The scale times the sum of all numbers, float32.
pub(crate) const SUM: usize = 100;
/// The sums of `high * 2^8 + middle`, `i32`: of the first 16 numbers, of the last 16, of all.
pub(crate) const UPPER: [usize; 3] = [104, 108, 112];
/// The same of the low digits.
pub(crate) const LOW: [usize; 3] = [116, 120, 124];

/// Bits of a number's magnitude.
const BITS: u32 = 23;

/// Below this, the magnitudes of 32 columns count as zeros: their inverse would leave the range.
const SMALLEST: f32 = 1e-30;

/// The tiles that `n` tokens of float32 activations are cut into, first token and width: sixes, then a three, then a
/// two or a one.
pub fn tiles(n: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut t = 0;
    std::iter::from_fn(move || {
        let width = match n - t {
            0 => return None,
            w @ (1 | 2) => w,
            w => {
                if w < TILE {
                    3
                } else {
                    TILE
                }
            }
        };
        t += width;
        Some((t - width, width))
    })
}

/// Whether float32 activations of `n` tokens are laid out in tiles.
pub fn in_tiles(n: usize) -> bool {
    n >= TILED
}

/// Where the record of part `part` of token `t` begins among those of `n` tokens with `parts` parts each, in bytes;
/// the token's next part follows after the second number.
///
/// Tiles of [`RECORD_TILE`] tokens lie one after the other, in each its parts, in each a record a token.
pub fn record_at(t: usize, part: usize, n: usize, parts: usize) -> (usize, usize) {
    let first = t / RECORD_TILE * RECORD_TILE;
    let width = RECORD_TILE.min(n - first);
    ((first * parts + part * width + t - first) * RECORD, width * RECORD)
}

/// Activations of `n` tokens, ready to be multiplied; the first begins a tile of whichever is read.
#[derive(Clone, Copy)]
pub struct Activations {
    /// Read by plain weights. A row has `stride` columns, zeros behind its end. From five tokens on, a tile of `w`
    /// tokens from `t` on has column `k` of token `t + i` at `t * stride + k * w + i`; otherwise rows lie one
    /// after the other.
    pub x: *const f32,
    /// Read by quantised weights: see [`record_at`], `stride / 32` parts.
    pub records: *const u8,
    /// Columns of a row, those behind its end included.
    pub stride: usize,
    /// Tokens.
    pub n: usize,
    /// Whether the rows of `x` are in tiles.
    pub tiled: bool,
    /// Whether the records have one digit.
    pub fast: bool,
}

/// Lays out `width` rows as a tile of float32 (one row: as it is).
pub struct Tile {
    /// `[width][cols]`, readable.
    pub x: *const f32,
    /// Columns.
    pub cols: usize,
    /// Tokens of the tile.
    pub width: usize,
    /// `cols` rounded up to a multiple of 32, at least.
    pub stride: usize,
    /// `[stride][width]`, writable by this call alone.
    pub to: *mut f32,
}

impl Tile {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Tile {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for i in 0..self.width {
            for col in (0..self.stride).step_by(LANES) {
                // SAFETY: whoever built this vouches for the rows and for room for `stride` columns.
                unsafe {
                    let rest = self.cols.saturating_sub(col);
                    let x = L::load_up_to(self.x.add(i * self.cols + col.min(self.cols)), rest);
                    if self.width == 1 {
                        x.store(self.to.add(col));
                        continue;
                    }
                    for (k, x) in x.to_array().into_iter().enumerate() {
                        *self.to.add((col + k) * self.width + i) = x;
                    }
                }
            }
        }
    }
}

/// Makes the records of one token.
///
/// Where one of 32 columns is not a finite number, all 32 are NaN to every product.
pub struct Quantise {
    /// `[cols]`, readable.
    pub x: *const f32,
    /// Columns.
    pub cols: usize,
    /// Records, `cols / 32` rounded up, at least.
    pub parts: usize,
    /// The first of them; writable by this call alone.
    pub to: *mut u8,
    /// Bytes from one record to the next.
    pub step: usize,
    /// Whether numbers are one digit, of 7 bits and a sign: the largest of 32 is 127.
    pub fast: bool,
}

impl Quantise {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say; `to` is aligned for `i32`, `step` a multiple of [`RECORD`].
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Quantise {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for part in 0..self.parts {
            // SAFETY: whoever built this vouches for the row and the records.
            unsafe {
                let mut x = [L::zero(); 4];
                for (i, x) in x.iter_mut().enumerate() {
                    let col = (UNIT * part + LANES * i).min(self.cols);
                    *x = L::load_up_to(self.x.add(col), self.cols - col);
                }
                let to = self.to.add(part * self.step);
                match self.fast {
                    false => record(x, to),
                    true => short_record(x, to),
                }
            }
        }
    }
}

/// The power of two that numbers with this largest magnitude are multiples of, and its inverse.
#[inline(always)]
fn scales(largest: f32) -> (f32, f32) {
    if largest < SMALLEST {
        return (0.0, 0.0);
    }
    // The largest digits are 127, not 128: numbers within 1/128 of the next power of two count as that, be it infinity.
    let exponent = (largest * (1.0 + 1.0 / 128.0)).to_bits() >> 23;
    let scale = exponent + 1 - BITS;
    (f32::from_bits(scale << 23), f32::from_bits((254 - scale) << 23))
}

/// The largest magnitude, and whether all numbers are finite.
#[inline(always)]
fn extent<L: Lanes>(x: [L; 4]) -> (f32, bool) {
    let mut top = L::zero();
    // Zero, or NaN if one of them is not finite.
    let mut odd = L::zero();
    for x in x {
        top = top.max(x).max(x.mul(L::splat(-1.0)));
        odd = odd.add(x.mul(L::zero()));
    }
    let mut largest = 0.0f32;
    for x in top.to_array() {
        largest = if x > largest { x } else { largest };
    }
    (largest, odd.sum() == 0.0)
}

/// A record of one digit: its scale is a 127th of the largest magnitude, and only the digits, the sums of all and those of
/// the upper digits are written.
///
/// # Safety
/// `to` has room for a record and is aligned for `i32`.
#[inline(always)]
unsafe fn short_record<L: Lanes>(x: [L; 4], to: *mut u8) {
    let (largest, finite) = extent(x);
    let (scale, inverse) = match largest {
        _ if !finite => (f32::NAN, 0.0),
        largest if largest < SMALLEST => (0.0, 0.0),
        largest => (largest / 127.0, 127.0 / largest),
    };
    let mut sums = [0i32; 2];
    for (i, x) in x.into_iter().enumerate() {
        let x = if finite { x } else { L::zero() };
        let q = L::int_array(x.mul(L::splat(inverse)).round());
        let mut bytes = [0u8; LANES];
        for (byte, q) in bytes.iter_mut().zip(q) {
            *byte = q as u8;
            sums[i / 2] += q;
        }
        // SAFETY: the caller vouches for the record.
        unsafe { to.add(DIGITS[0] + LANES * i).cast::<[u8; LANES]>().write(bytes) };
    }
    // SAFETY: as above.
    unsafe {
        to.add(SCALE).cast::<f32>().write(scale);
        to.add(SUM).cast::<f32>().write(scale * (sums[0] + sums[1]) as f32);
        for (at, sum) in UPPER.into_iter().zip([sums[0], sums[1], sums[0] + sums[1]]) {
            to.add(at).cast::<i32>().write(sum);
        }
    }
}

/// # Safety
/// `to` has room for a record and is aligned for `i32`.
#[inline(always)]
unsafe fn record<L: Lanes>(x: [L; 4], to: *mut u8) {
    let (largest, finite) = extent(x);
    let (mut scale, mut inverse) = scales(largest);
    if !finite {
        (scale, inverse) = (f32::NAN, 0.0);
    }
    let mut q = [0i32; UNIT];
    for (q, x) in q.chunks_exact_mut(LANES).zip(x) {
        let x = if finite { x } else { L::zero() };
        q.copy_from_slice(&L::int_array(x.mul(L::splat(inverse)).round()));
    }
    let (mut digits, mut upper) = ([[0u8; UNIT]; 3], [0i32; UNIT]);
    for i in 0..UNIT {
        let low = ((q[i] + 128) & 255) - 128;
        upper[i] = (q[i] - low) >> 8;
        let middle = ((upper[i] + 128) & 255) - 128;
        let high = (upper[i] - middle) >> 8;
        (digits[0][i], digits[1][i], digits[2][i]) = (high as u8, middle as u8, low as u8);
    }
    let (mut halves, mut uppers) = ([0; 2], [0; 2]);
    for i in 0..UNIT / 2 {
        halves[0] += q[i];
        halves[1] += q[UNIT / 2 + i];
        uppers[0] += upper[i];
        uppers[1] += upper[UNIT / 2 + i];
    }
    let all = [halves[0], halves[1], halves[0] + halves[1]];
    let uppers = [uppers[0], uppers[1], uppers[0] + uppers[1]];
    // SAFETY: the caller vouches for the record.
    unsafe {
        for (digits, at) in digits.iter().zip(DIGITS) {
            to.add(at).cast::<[u8; UNIT]>().write(*digits);
        }
        to.add(SCALE).cast::<f32>().write(scale);
        to.add(SUM).cast::<f32>().write(scale * all[2] as f32);
        for i in 0..3 {
            to.add(UPPER[i]).cast::<i32>().write(uppers[i]);
            to.add(LOW[i]).cast::<i32>().write(all[i] - (uppers[i] << 8));
        }
    }
}
