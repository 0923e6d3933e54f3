//! `qwen2`: Qwen 2 and 2.5 (arXiv:2407.10671): a llama with biases on q, k and v, not permuted.

use super::blocks::{assemble, decoder_layers, AttentionKind};
use super::hyper::Hyper;
use super::plan::{Plan, RopeStyle};
use super::rope;
use super::tensors::Tensors;
use crate::error::Result;
use crate::gguf::Gguf;

pub(super) fn plan(gguf: &Gguf) -> Result<Plan> {
    let hyper = Hyper::new(gguf, "qwen2");
    let c = hyper.common()?;
    hyper.refuse_window(&c)?;
    let rope = rope::from_keys(gguf, &hyper, c.head_dim, RopeStyle::Halves)?;
    let mut t = Tensors::new(gguf, hyper.arch, &[rope::FACTORS])?;
    let kind = AttentionKind { head_norms: false, biased: true };
    let layers = decoder_layers(&mut t, &hyper, &c, &rope, &kind)?;
    assemble(t, gguf, &c, layers, "output_norm.weight", 1.0)
}
