//! `llama`: Llama 1 to 3, SmolLM, Mistral and their kin (arXiv:2302.13971).
//!
//! GGUF stores the rows of q and k permuted so that adjacent elements rotate together. Llama 3's scaling of
//! the rope comes as the tensor `rope_freqs.weight`.

use super::blocks::{assemble, decoder_layers, AttentionKind};
use super::hyper::Hyper;
use super::plan::{Plan, RopeStyle};
use super::rope;
use super::tensors::Tensors;
use crate::error::Result;
use crate::gguf::Gguf;

pub(super) fn plan(gguf: &Gguf) -> Result<Plan> {
    let hyper = Hyper::new(gguf, "llama");
    let c = hyper.common()?;
    hyper.refuse_window(&c)?;
    let rope = rope::from_keys(gguf, &hyper, c.head_dim, RopeStyle::Adjacent)?;
    let mut t = Tensors::new(gguf, hyper.arch, &[rope::FACTORS])?;
    let kind = AttentionKind { head_norms: false, biased: false };
    let layers = decoder_layers(&mut t, &hyper, &c, &rope, &kind)?;
    assemble(t, gguf, &c, layers, "output_norm.weight", 1.0)
}
