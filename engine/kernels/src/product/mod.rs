//! Weights times activations, for one token or many.
//!
//! How many rows and tokens are worked on together changes only which sums are in flight, never a sum, so that
//! outputs are bit-identical for any batch: see [`plain`] and [`quantised`] for the order of each.

mod plain;
mod quantised;

use crate::activations::Activations;
use crate::formats::{for_format, ForFormat, Plain, Quantised, ROWS};
use crate::lanes::Isa;
use crate::layout::Layout;
use std::marker::PhantomData;
use std::ops::Range;

/// Ranges of rows are best a multiple of this long.
pub const ROWS_TOGETHER: usize = plain::GROUPS * ROWS;

/// Floats of scratch that a product for `n` tokens needs.
pub fn scratch_elems(n: usize) -> usize {
    plain::scratch(n).max(quantised::SCRATCH)
}

/// What to multiply: `out[t][r]` for the rows `r` of the range, `out: [n][out_stride]`; `scratch:
/// [scratch_elems(n)]`. The range begins with a whole group of rows and ends with one or with the matrix.
///
/// For the time of the product nobody writes the activations, nobody else touches `scratch` or those columns of
/// `out`. The activations' rows are as wide as the matrix's padded ones.
pub struct Product {
    /// Rows of the matrix.
    pub rows: Range<usize>,
    /// What they are multiplied with.
    pub x: Activations,
    /// Output of the first token's first row.
    pub out: *mut f32,
    /// Floats from one token's outputs to the next's.
    pub out_stride: usize,
    /// Room to work in.
    pub scratch: *mut f32,
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// A product with weights of format `F`, in one of the two ways.
struct Typed<'a, F, Way> {
    w: *const u8,
    group_bytes: usize,
    /// Blocks of a group.
    blocks: usize,
    p: &'a Product,
    format: PhantomData<(F, Way)>,
}

/// The product in the format's own code.
///
/// # Safety
/// `w` holds the groups, and the product is as it says.
pub(crate) unsafe fn multiply(isa: Isa, matrix: &Layout, w: *const u8, product: &Product) {
    for_format(matrix.dtype, Untyped { isa, matrix, w, product });
}

struct Untyped<'a> {
    isa: Isa,
    matrix: &'a Layout,
    w: *const u8,
    product: &'a Product,
}

impl ForFormat for Untyped<'_> {
    type Out = ();

    fn plain<F: Plain + 'static>(self) {
        let (isa, tiled) = (self.isa, self.product.x.tiled);
        let typed = self.typed::<F, plain::Floats>(F::COLS);
        if !tiled {
            isa.call(typed);
        } else {
            // SAFETY: `multiply`'s caller vouches for all pointers and sizes.
            unsafe { typed.panels(isa) };
        }
    }

    fn quantised<F: Quantised + 'static>(self) {
        match self.product.x.fast {
            false => self.isa.call(self.typed::<F, quantised::Integers<false>>(F::COLS)),
            true => self.isa.call(self.typed::<F, quantised::Integers<true>>(F::COLS)),
        }
    }
}

impl<'a> Untyped<'a> {
    /// `cols`: columns of a block.
    fn typed<F, Way>(&self, cols: usize) -> Typed<'a, F, Way> {
        let &Untyped { matrix, w, product, .. } = self;
        let blocks = matrix.padded / cols;
        Typed { w, group_bytes: matrix.group_bytes, blocks, p: product, format: PhantomData }
    }
}
