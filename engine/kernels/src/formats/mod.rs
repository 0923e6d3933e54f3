//! The CPU's own layouts of the storage types: one file a format, one source for all instruction sets.
//!
//! Eight rows are interleaved, so that a lane of a vector is a row: nothing is ever summed across lanes, and the
//! scales of eight rows are converted together. Rows are cut into blocks of [`Format::COLS`] columns (zeros behind
//! the last row and column) and blocks into parts of [`Format::PART`] columns that share a scale:
//!
//! ```text
//! sum_k w[k] x[k] = sum_parts scale * (sum_k q[k] x[k]) + offset * (sum_k x[k])
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

/// Columns are padded to a multiple of this.
pub const UNIT: usize = 32;

/// Columns of the sums of activations that products with offsets need: the smallest part.
pub const SUM: usize = 16;

/// Factors of eight consecutive activations for formats with [`Format::SHIFTED`]. All are powers of two.
pub const UNSHIFT: [f32; 8] =
    [1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / 4096.0, 1.0 / 65536.0, 1.0 / 1048576.0, 1.0 / 16777216.0, 1.0];

/// A layout of eight rows.
pub trait Format {
    /// Columns of a block.
    const COLS: usize;
    /// Bytes of a block of eight rows.
    const BYTES: usize;
    /// Columns of a part.
    const PART: usize;
    /// Whether parts have offsets; without, they are 0.
    const OFFSET: bool;
    /// Whether [`Format::eight`] leaves number `k` multiplied by `1 / UNSHIFT[k % 8]`, for the activations to undo:
    /// it saves a shift.
    const SHIFTED: bool;

    /// Packs a block. `rows[r]` are the file's bytes of row `r`'s columns.
    fn pack(rows: [&[u8]; ROWS], block: &mut [u8]);

    /// Columns `8 * j ..` of eight rows: lane `r` of vector `i` is row `r`'s number in column `8 * j + i`.
    ///
    /// # Safety
    /// `block` is readable for `BYTES` and `8 * j < COLS`.
    unsafe fn eight<L: Lanes>(block: *const u8, j: usize) -> [L; 8];

    /// Scales of a part, lane `r` for row `r`.
    ///
    /// # Safety
    /// `block` is readable for `BYTES` and `part * PART < COLS`.
    unsafe fn scale<L: Lanes>(block: *const u8, part: usize) -> L;

    /// Offsets of a part.
    ///
    /// # Safety
    /// As for [`Format::scale`].
    unsafe fn offset<L: Lanes>(block: *const u8, part: usize) -> L;
}

/// A computation that is compiled once a format.
pub trait ForFormat {
    /// What it returns.
    type Out;
    /// The computation.
    fn run<F: Format + 'static>(self) -> Self::Out;
}

/// Runs a computation for a storage type's format.
#[inline]
pub fn for_format<C: ForFormat>(dtype: DType, computation: C) -> C::Out {
    match dtype {
        DType::F32 => computation.run::<F32>(),
        DType::F16 => computation.run::<F16>(),
        DType::BF16 => computation.run::<Bf16>(),
        DType::Q4_0 => computation.run::<Q4_0>(),
        DType::Q4_1 => computation.run::<Q4_1>(),
        DType::Q5_0 => computation.run::<Q5_0>(),
        DType::Q5_1 => computation.run::<Q5_1>(),
        DType::Q8_0 => computation.run::<Q8_0>(),
        DType::Q4_K => computation.run::<Q4K>(),
        DType::Q5_K => computation.run::<Q5K>(),
        DType::Q6_K => computation.run::<Q6K>(),
    }
}

/// Copies field `from .. from + N` of every row's block to `to`, row after row.
fn interleave<const N: usize>(rows: &[&[u8]; ROWS], from: usize, to: &mut [u8]) {
    for (row, to) in rows.iter().zip(to.chunks_exact_mut(N)) {
        to.copy_from_slice(&row[from..from + N]);
    }
}
