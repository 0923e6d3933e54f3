//! Products with quantised weights.
//!
//! A lane is a row. In a part, products of bytes are summed exactly as integers, and the sums become a float32 that is
//! the same on every instruction set; `scale * x's scale` times that and `offset` times the sum of the activations
//! are added to the output, part after part. The numbers of eight rows and 32 columns stay in eight registers
//! while all tokens are multiplied with them. With `fast` activations, which are one digit, the sums are of that alone.

use super::LINE;
use crate::activations::{record_at, Activations, LOW, RECORD, RECORD_TILE, SCALE, SUM, UPPER};
use crate::formats::{Quantised, ROWS, UNIT};
use crate::lanes::{Kernel, Lanes, LANES};

/// Groups of rows whose outputs for a tile of tokens are held in scratch together.
const GROUPS: usize = 12;

/// Parts that all groups are multiplied with before the next ones: their records stay in the second-level cache.
const PARTS: usize = 16;

/// Tokens whose sums are taken before the first of them is scaled: scaling is a long chain of operations, behind which
/// the next token's products would wait for registers.
const TOGETHER: usize = 16;

/// How far ahead of a pass over the weights they are asked for.
const PREFETCH_BYTES: usize = 2048;

/// Floats of scratch that a product needs.
pub(super) const SCRATCH: usize = GROUPS * LANES * RECORD_TILE;

/// Weights as integers.
pub(super) enum Integers<const FAST: bool> {}

type Typed<'a, F, const FAST: bool> = super::Typed<'a, F, Integers<FAST>>;

impl<F: Quantised, const FAST: bool> Kernel for Typed<'_, F, FAST> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        const { assert!(F::BITS < 7 && (F::SCALES == 1 || F::SCALES == 2 && !F::OFFSET)) };
        // SAFETY: the product's maker vouches for all pointers and sizes.
        unsafe {
            match self.p.x.n {
                1 => self.one::<L>(),
                _ => self.many::<L>(),
            }
        }
    }
}

/// A part of eight rows in registers.
struct Part<L: Lanes> {
    /// The numbers.
    w: [L::Bytes; 8],
    /// The second one is read by formats with two.
    scale: [L; 2],
    /// Read by formats with offsets.
    offset: L,
}

/// An `i32` in all lanes.
///
/// # Safety
/// `p` is readable for four aligned bytes.
#[inline(always)]
unsafe fn splat_int<L: Lanes>(p: *const u8) -> L::Int {
    // SAFETY: the caller vouches for the number.
    L::splat_int(unsafe { *p.cast::<i32>() })
}

impl<L: Lanes> Part<L> {
    /// # Safety
    /// `block` is readable for a block of which `part` is one.
    #[inline(always)]
    unsafe fn load<F: Quantised>(block: *const u8, part: usize) -> Self {
        // SAFETY: the caller vouches for the block.
        unsafe {
            let scale = F::scale::<L>(block, F::SCALES * part);
            Part {
                w: F::weights::<L>(block, part),
                scale: [scale, if F::SCALES == 2 { F::scale::<L>(block, 2 * part + 1) } else { scale }],
                offset: if F::OFFSET { F::offset::<L>(block, part) } else { L::zero() },
            }
        }
    }

    /// The products of the numbers with a record's upper and low digits, for each scale. Exact.
    ///
    /// # Safety
    /// `x` is a record.
    #[inline(always)]
    unsafe fn products<F: Quantised, const FAST: bool>(&self, x: *const u8) -> Sums<L> {
        // SAFETY: the caller vouches for the record.
        unsafe {
            if F::SCALES == 2 {
                return [self.some::<F, FAST, 0, 4>(x), self.some::<F, FAST, 4, 4>(x)];
            }
            [self.some::<F, FAST, 0, 8>(x); 2]
        }
    }

    /// Those of vectors `FROM .. FROM + N`.
    ///
    /// # Safety
    /// `x` is a record.
    #[inline(always)]
    unsafe fn some<F: Quantised, const FAST: bool, const FROM: usize, const N: usize>(
        &self,
        x: *const u8,
    ) -> (L::Int, L::Int) {
        // Pairs of products are at most `8 * 2 * 15 * 128`, `4 * 2 * 31 * 128` or `2 * 2 * 63 * 128`.
        // SAFETY: the caller vouches for the record.
        unsafe {
            match (F::BITS, FAST) {
                (6, false) => L::products::<FROM, N, 2>(&self.w, x),
                (5, false) => L::products::<FROM, N, 4>(&self.w, x),
                (_, false) => L::products::<FROM, N, 8>(&self.w, x),
                (6, true) => L::products_of_one::<FROM, N, 2>(&self.w, x),
                (5, true) => L::products_of_one::<FROM, N, 4>(&self.w, x),
                (_, true) => L::products_of_one::<FROM, N, 8>(&self.w, x),
            }
        }
    }

    /// `acc` plus the part's products with a record.
    ///
    /// # Safety
    /// `x` is a record.
    #[inline(always)]
    unsafe fn add<F: Quantised, const FAST: bool>(&self, sums: Sums<L>, x: *const u8, acc: L) -> L {
        // SAFETY: the caller vouches for the record.
        unsafe {
            let factor = L::splat(*x.add(SCALE).cast::<f32>());
            if F::SCALES == 2 {
                let acc = self.scale[0].mul(factor).mul_add(whole::<L, F, FAST>(sums[0], x, 0), acc);
                return self.scale[1].mul(factor).mul_add(whole::<L, F, FAST>(sums[1], x, 1), acc);
            }
            let acc = self.scale[0].mul(factor).mul_add(whole::<L, F, FAST>(sums[0], x, 2), acc);
            if F::OFFSET {
                return self.offset.mul_add(L::splat(*x.add(SUM).cast::<f32>()), acc);
            }
            acc
        }
    }
}

/// Products with upper and low digits for each scale; formats with one scale read the first.
type Sums<L> = [(<L as Lanes>::Int, <L as Lanes>::Int); 2];

/// Products less the format's zero; `of` is the index of the digits' sums in the record. Exact but for two roundings to
/// float32.
///
/// # Safety
/// `x` is a record.
#[inline(always)]
unsafe fn whole<L: Lanes, F: Quantised, const FAST: bool>(
    (upper, low): (L::Int, L::Int),
    x: *const u8,
    of: usize,
) -> L {
    // SAFETY: the caller vouches for the record.
    unsafe {
        let upper = off_zero::<L, F>(upper, splat_int::<L>(x.add(UPPER[of])));
        if FAST {
            return upper;
        }
        upper.mul_add(L::splat(256.0), off_zero::<L, F>(low, splat_int::<L>(x.add(LOW[of]))))
    }
}

/// Sums of products as floats, the format's zero times the sum of the digits taken off.
#[inline(always)]
fn off_zero<L: Lanes, F: Quantised>(products: L::Int, digits: L::Int) -> L {
    const { assert!(matches!(F::ZERO, 0 | 8 | 16 | 32)) };
    L::float(match F::ZERO {
        0 => products,
        8 => L::sub_shl::<3>(products, digits),
        16 => L::sub_shl::<4>(products, digits),
        _ => L::sub_shl::<5>(products, digits),
    })
}

impl<F: Quantised, const FAST: bool> Typed<'_, F, FAST> {
    /// One token: a group of rows at a time, the weights read from end to end.
    ///
    /// # Safety
    /// As for the product, and `n == 1`.
    #[inline(always)]
    unsafe fn one<L: Lanes>(&self) {
        let run = F::BYTES / (F::COLS / UNIT);
        for group in self.p.rows.start / ROWS..self.p.rows.end.div_ceil(ROWS) {
            let mut acc = L::zero();
            // SAFETY: the group is within the range, the parts within the rows of weights and activations.
            unsafe {
                let mut x = self.p.x.records;
                let mut block = self.w.add(group * self.group_bytes);
                for _ in 0..self.blocks {
                    for part in 0..std::hint::black_box(F::COLS / UNIT) {
                        let ahead = block.wrapping_add(part * run + PREFETCH_BYTES);
                        for line in 0..run.div_ceil(LINE) {
                            L::prefetch(ahead.wrapping_add(line * LINE));
                        }
                        let part = Part::<L>::load::<F>(block, part);
                        acc = part.add::<F, FAST>(part.products::<F, FAST>(x), x, acc);
                        x = x.add(RECORD);
                    }
                    block = block.add(F::BYTES);
                }
                let row = group * ROWS;
                acc.store_up_to(self.p.out.add(row), self.p.rows.end - row);
            }
        }
    }

    /// Any number of tokens: some groups, all of a tile's tokens and some parts at a time, the outputs in scratch.
    ///
    /// # Safety
    /// As for the product.
    #[inline(always)]
    unsafe fn many<L: Lanes>(&self) {
        let Activations { records, stride, n, .. } = self.p.x;
        let parts = stride / UNIT;
        let end = self.p.rows.end.div_ceil(ROWS);
        for first in (0..n).step_by(RECORD_TILE) {
            let width = RECORD_TILE.min(n - first);
            for from in (self.p.rows.start / ROWS..end).step_by(GROUPS) {
                let groups = GROUPS.min(end - from);
                // SAFETY: the tile is one of the activations', groups and parts are within the matrix, and the scratch
                // has room for `GROUPS` times `RECORD_TILE` vectors.
                unsafe {
                    self.p.scratch.write_bytes(0, groups * width * LANES);
                    for part in (0..parts).step_by(PARTS) {
                        let until = parts.min(part + PARTS);
                        for group in 0..groups {
                            let acc = self.p.scratch.add(group * width * LANES);
                            let w = self.w.add((from + group) * self.group_bytes);
                            for part in part..until {
                                let x = records.add(record_at(first, part, n, parts).0);
                                self.part::<L>(w, part, x, width, acc);
                            }
                        }
                    }
                    for group in 0..groups {
                        let row = (from + group) * ROWS;
                        for t in 0..width {
                            let acc = L::load(self.p.scratch.add((group * width + t) * LANES));
                            let out = self.p.out.add((first + t) * self.p.out_stride + row);
                            acc.store_up_to(out, self.p.rows.end - row);
                        }
                    }
                }
            }
        }
    }

    /// Multiplies a part of the group at `w` with `width` records, adding to `acc: [width][8]`.
    ///
    /// # Safety
    /// The part is one of the matrix, and `x` and `acc` are what they should be.
    #[inline(always)]
    unsafe fn part<L: Lanes>(&self, w: *const u8, part: usize, x: *const u8, width: usize, acc: *mut f32) {
        const { assert!(F::COLS.is_multiple_of(UNIT)) };
        let in_block = F::COLS / UNIT;
        // SAFETY: the caller's.
        unsafe {
            let part = Part::<L>::load::<F>(w.add(part / in_block * F::BYTES), part % in_block);
            let mut sums = [[(L::splat_int(0), L::splat_int(0)); 2]; TOGETHER];
            for first in (0..width).step_by(TOGETHER) {
                let (x, acc) = (x.add(first * RECORD), acc.add(first * LANES));
                let n = TOGETHER.min(width - first);
                for (t, sums) in sums[..n].iter_mut().enumerate() {
                    *sums = part.products::<F, FAST>(x.add(t * RECORD));
                }
                for (t, sums) in sums[..n].iter().enumerate() {
                    let acc = acc.add(t * LANES);
                    part.add::<F, FAST>(*sums, x.add(t * RECORD), L::load(acc)).store(acc);
                }
            }
        }
    }
}
