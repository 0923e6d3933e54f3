//! Block formats and their reference (scalar, obviously right) dequantisation.
//!
//! A format is one file with `ELEMS`, `BYTES`, `dequantize` and `quantize` of one block, and one line in the table below.
//! The arithmetic is float32 in the order of ggml's `dequantize_row_*` (ggml-quants.c), bit for bit; layouts
//! are described in each file. All numbers are little-endian.

mod bfloat16;
mod float16;
mod float32;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod quantize;
mod scales;
mod search;
#[cfg(test)]
mod tests;

pub use quantize::quantize_row;

pub use quantize::RowError;
pub(crate) use scales::six_bits;

macro_rules! formats {
    ($($name:ident = $number:literal in $module:ident,)*) => {
        /// Storage type of a tensor, with GGUF's numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[allow(missing_docs, non_camel_case_types)]
        pub enum DType {
            $($name = $number,)*
        }

        impl DType {
            /// Every type the engine reads.
            pub const ALL: [DType; [$($number),*].len()] = [$(DType::$name),*];

            /// Elements of a block.
            pub const fn block_elems(self) -> usize {
                match self {
                    $(DType::$name => $module::ELEMS,)*
                }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> usize {
                match self {
                    $(DType::$name => $module::BYTES,)*
                }
            }

            /// The name that GGUF tools use, such as `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DType::$name => stringify!($name),)*
                }
            }
        }

        /// Whole blocks, lengths already checked.
        fn quantize_blocks(dtype: DType, values: &[f32], out: &mut [u8]) {
            match dtype {
                $(DType::$name => blocks_of(values, out, $module::quantize),)*
            }
        }

        /// Whole blocks, lengths already checked.
        fn dequantize_blocks(dtype: DType, bytes: &[u8], out: &mut [f32]) {
            match dtype {
                $(DType::$name => blocks(bytes, out, $module::dequantize),)*
            }
        }
    };
}

formats! {
    F32 = 0 in float32,
    F16 = 1 in float16,
    BF16 = 30 in bfloat16,
    Q4_0 = 2 in q4_0,
    Q4_1 = 3 in q4_1,
    Q5_0 = 6 in q5_0,
    Q5_1 = 7 in q5_1,
    Q8_0 = 8 in q8_0,
    Q4_K = 12 in q4_k,
    Q5_K = 13 in q5_k,
    Q6_K = 14 in q6_k,
}

impl DType {
    /// The type with a GGUF number, if the engine reads it.
    pub fn from_gguf(n: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u32 == n)
    }

    /// Bytes of `elems` elements; `None` when they are not whole blocks or too many.
    pub fn bytes_of(self, elems: usize) -> Option<usize> {
        if elems % self.block_elems() != 0 {
            return None;
        }
        (elems / self.block_elems()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Float32 values of whole blocks; any number of rows, since rows are whole blocks themselves.
///
/// # Errors
/// When `out` is not whole blocks or `bytes` does not hold exactly its elements.
pub fn dequantize_row(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), RowError> {
    if dtype.bytes_of(out.len()) != Some(bytes.len()) {
        let reason = format!("{} bytes do not hold exactly {} elements", bytes.len(), out.len());
        return Err(RowError { dtype, reason });
    }
    dequantize_blocks(dtype, bytes, out);
    Ok(())
}

fn blocks<const BYTES: usize, const ELEMS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; ELEMS]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (outs, _) = out.as_chunks_mut::<ELEMS>();
    for (b, o) in blocks.iter().zip(outs) {
        block(b, o);
    }
}

fn blocks_of<const BYTES: usize, const ELEMS: usize>(
    values: &[f32],
    out: &mut [u8],
    block: impl Fn(&[f32; ELEMS], &mut [u8; BYTES]),
) {
    let (values, _) = values.as_chunks::<ELEMS>();
    let (blocks, _) = out.as_chunks_mut::<BYTES>();
    for (v, b) in values.iter().zip(blocks) {
        block(v, b);
    }
}

/// The float16 at a byte offset of a block.
fn half_at<const N: usize>(block: &[u8; N], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 32 bits at a byte offset of a block.
fn bits_at<const N: usize>(block: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
