//! `qwen3`: dense Qwen 3 (arXiv:2505.09388): RMSNorm over each head of q and k, no biases, and a head size that
//! need not be an equal share of the width.

use super::blocks::{assemble, decoder_layers, AttentionKind};
use super::hyper::Hyper;
use super::plan::{Plan, RopeStyle};
use super::rope;
use super::tensors::Tensors;
use crate::error::Result;
use crate::gguf::Gguf;

pub(super) fn plan(gguf: &Gguf) -> Result<Plan> {
    let hyper = Hyper::new(gguf, "qwen3");
    let c = hyper.common()?;
    hyper.refuse_window(&c)?;
    let rope = rope::from_keys(gguf, &hyper, c.head_dim, RopeStyle::Halves)?;
    let mut t = Tensors::new(gguf, hyper.arch, &[rope::FACTORS])?;
    let kind = AttentionKind { head_norms: true, biased: false };
    let layers = decoder_layers(&mut t, &hyper, &c, &rope, &kind)?;
    assemble(t, gguf, &c, layers, "output_norm.weight", 1.0)
}
