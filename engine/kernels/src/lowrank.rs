//! The two halves of a low-rank update `factor * B (A x)`.
//!
//! `A x` sums over columns in lanes, `B` adds one rank after the other: the order depends on the update, the row
//! and nothing else.

use crate::lanes::{Isa, Kernel, Lanes, LANES};
use std::ops::Range;

/// Ranks whose sums are in flight together.
const TOGETHER: usize = 4;

/// `out = factor * A x`.
pub struct Shrink<'a> {
    /// `[rank][cols]`.
    pub a: &'a [f32],
    /// Ranks.
    pub rank: usize,
    /// What the result is multiplied with.
    pub factor: f32,
    /// `[cols]`, readable.
    pub x: *const f32,
    /// `[rank]`, writable by this call alone.
    pub out: *mut f32,
}

impl Shrink<'_> {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Shrink<'_> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (rank, cols, a) = (self.rank, self.a.len() / self.rank.max(1), self.a.as_ptr());
        for first in (0..rank).step_by(TOGETHER) {
            let n = TOGETHER.min(rank - first);
            let mut acc = [L::zero(); TOGETHER];
            for k in (0..cols).step_by(LANES) {
                // SAFETY: `k < cols`, and rows `first .. first + n` are within `a: [rank][cols]`.
                unsafe {
                    let x = L::load_up_to(self.x.add(k), cols - k);
                    for (i, acc) in acc.iter_mut().enumerate().take(n) {
                        *acc = x.mul_add(L::load_up_to(a.add((first + i) * cols + k), cols - k), *acc);
                    }
                }
            }
            for (i, acc) in acc.into_iter().enumerate().take(n) {
                // SAFETY: `first + i < rank`.
                unsafe { *self.out.add(first + i) = acc.sum() * self.factor };
            }
        }
    }
}

/// `out[r] += B[r] low` for a range of rows.
pub struct Expand<'a> {
    /// `[rank][rows]`: the columns of `B`, one after the other.
    pub b: &'a [f32],
    /// Ranks.
    pub rank: usize,
    /// `[rank]`, readable.
    pub low: *const f32,
    /// Within the update's rows.
    pub rows: Range<usize>,
    /// That of the range's first row; writable by this call alone.
    pub out: *mut f32,
}

impl Expand<'_> {
    /// Runs it.
    ///
    /// # Safety
    /// The pointers are to what the fields say.
    pub unsafe fn run_on(self, isa: Isa) {
        isa.call(self)
    }
}

impl Kernel for Expand<'_> {
    type Out = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let (rank, rows, b) = (self.rank, self.b.len() / self.rank.max(1), self.b.as_ptr());
        for r in self.rows.clone().step_by(LANES) {
            let rest = self.rows.end - r;
            // SAFETY: rows from `r` to the range's end are within `b: [rank][rows]` and `out`.
            unsafe {
                let out = self.out.add(r - self.rows.start);
                let mut acc = L::load_up_to(out, rest);
                for j in 0..rank {
                    acc = L::splat(*self.low.add(j)).mul_add(L::load_up_to(b.add(j * rows + r), rest), acc);
                }
                acc.store_up_to(out, rest);
            }
        }
    }
}
