//! Buffers of a pass, kept from one to the next.

use crate::error::{Error, Result};
pub(crate) use lean_kernels::shared::Shared;

/// A buffer that grows and never shrinks; its content is unspecified between passes.
#[derive(Default)]
pub(crate) struct Buffer(Vec<f32>);

impl Buffer {
    /// At least `elems` elements. Pointers from before are no longer valid.
    pub(crate) fn reserve(&mut self, elems: usize) -> Result<Shared> {
        if self.0.len() < elems {
            let more = elems - self.0.len();
            self.0.try_reserve_exact(more).map_err(|_| Error::OutOfMemory {
                wanted: elems as u64 * 4,
                what: "the activations of a pass".into(),
            })?;
            self.0.resize(elems, 0.0);
        }
        Ok(Shared::new(self.0.as_mut_ptr()))
    }
}

/// All buffers of a pass over `n` tokens.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The residual stream, `[n][hidden]`.
    pub(crate) hidden: Buffer,
    /// Normalised input of a step, `[n][hidden]`.
    pub(crate) normed: Buffer,
    /// What a step computes first: q, `B C x`, or the gate.
    pub(crate) first: Buffer,
    /// Keys, `u` of a convolution, or the feed-forward's `up`.
    pub(crate) second: Buffer,
    /// Values.
    pub(crate) third: Buffer,
    /// What the output projection reads.
    pub(crate) mixed: Buffer,
    /// What the output projection writes, `[n][hidden]`.
    pub(crate) projected: Buffer,
    /// A product's input in tiles, zeros behind the rows' ends.
    pub(crate) plain: Buffer,
    /// The same as records, for quantised weights.
    pub(crate) records: Buffer,
    /// What low-rank updates make of a product's input, `[token][rank]` of each.
    pub(crate) low: Buffer,
    /// What products work in, one part a thread.
    pub(crate) products: Buffer,
    /// Attention scores, one part a thread.
    pub(crate) scores: Buffer,
    /// Cosines and sines, `[rope][token][cos, sin][pairs]`.
    pub(crate) angles: Buffer,
}
