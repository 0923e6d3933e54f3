//! The CPU's own layouts of the storage types: one file a format, one source for all instruction sets.
//!
//! Eight rows are interleaved, so that a lane of a vector is a row: nothing is ever summed across lanes, and the
//! scales of eight rows are converted together. Rows are cut into blocks of [`Packed::COLS`] columns (zeros behind
//! the last row and column), blocks into parts of [`UNIT`] columns. A part of a quantised row has one scale, or one
//! for each half of it, and perhaps an offset:
//!
//! ```text
//! sum_k w[k] x[k] = sum_parts scale * (sum_k (q[k] - zero) x[k]) + offset * (sum_k x[k])
//! ```
//!
//! Every format keeps the bits of the file's numbers; the size is that of the file's blocks, except that the
//! six-bit scales of Q4_K and Q5_K take a byte each (2.8 and 2.3 per cent more).

mod float;
mod k_quants;
mod nibbles;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

pub use float::{Bf16, F16, F32};
pub use q4_0::Q4_0;
pub use q4_1::Q4_1;
pub use q4_k::Q4K;
pub use q5_0::Q5_0;
pub use q5_1::Q5_1;
pub use q5_k::Q5K;
pub use q6_k::Q6K;
pub use q8_0::Q8_0;

use crate::lanes::{Lanes, LANES};
use crate::quant::DType;

/// Rows that are interleaved.
pub const ROWS: usize = LANES;

/// Columns of a part; they are padded to a multiple of this.
pub const UNIT: usize = 32;

/// A layout of eight rows.
pub trait Packed {
    /// Columns of a block.
    const COLS: usize;
    /// Bytes of a block of eight rows.
    const BYTES: usize;

    /// Packs a block. `rows[r]` are the file's bytes of row `r`'s columns.
    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]);
}

/// Plain numbers.
pub trait Plain: Packed {
    /// Columns `8 * j ..` of eight rows: lane `r` of vector `i` is row `r`'s number in column `8 * j + i`.
    ///
    /// # Safety
    /// `block` is readable for `BYTES` and `8 * j < COLS`.
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8];
}

/// Small unsigned numbers with scales.
pub trait Quantised: Packed {
    /// Bits of a number.
    const BITS: u32;
    /// What is subtracted from the numbers: 0 or a power of two.
    const ZERO: i32 = 0;
    /// Scales of a part: one, or one for each half of its columns.
    const SCALES: usize = 1;
    /// Whether parts have offsets; without, they are 0.
    const OFFSET: bool = false;

    /// The numbers of a part: lane `r` of vector `s` has columns `4 * s .. 4 * s + 4` of row `r`.
    ///
    /// # Safety
    /// `block` is readable for `BYTES` and `UNIT * part < COLS`.
    unsafe fn weights<L: Lanes>(block: *const u8, part: usize) -> [L::Bytes; 8];

    /// A scale, lane `r` for row `r`. Part `part` has those from `SCALES * part` on.
    ///
    /// # Safety
    /// `block` is readable for `BYTES` and `UNIT * index < COLS * SCALES`.
    unsafe fn scale<L: Lanes>(block: *const u8, index: usize) -> L;

    /// Offsets of a part.
    ///
    /// # Safety
    /// As for [`Quantised::weights`].
    #[inline(always)]
    unsafe fn offset<L: Lanes>(_block: *const u8, _part: usize) -> L {
        L::zero()
    }
}

/// A computation that is compiled once a format.
pub trait ForFormat: Sized {
    /// What it returns.
    type Out;
    /// The computation for plain numbers.
    fn plain<F: Plain + 'static>(self) -> Self::Out;
    /// The computation for quantised ones.
    fn quantised<F: Quantised + 'static>(self) -> Self::Out;
}

/// Runs a computation for a storage type's format.
#[inline]
pub fn for_format<C: ForFormat>(dtype: DType, computation: C) -> C::Out {
    match dtype {
        DType::F32 => computation.plain::<F32>(),
        DType::F16 => computation.plain::<F16>(),
        DType::BF16 => computation.plain::<Bf16>(),
        DType::Q4_0 => computation.quantised::<Q4_0>(),
        DType::Q4_1 => computation.quantised::<Q4_1>(),
        DType::Q5_0 => computation.quantised::<Q5_0>(),
        DType::Q5_1 => computation.quantised::<Q5_1>(),
        DType::Q8_0 => computation.plain::<Q8_0>(),
        DType::Q4_K => computation.quantised::<Q4K>(),
        DType::Q5_K => computation.quantised::<Q5K>(),
        DType::Q6_K => computation.quantised::<Q6K>(),
    }
}

/// Copies field `from .. from + N` of every row's block to `to`, row after row.
fn interleave<const N: usize>(rows: &[&[u8]; ROWS], from: usize, to: &mut [u8]) {
    for (row, to) in rows.iter().zip(to.chunks_exact_mut(N)) {
        to.copy_from_slice(&row[from..from + N]);
    }
}
