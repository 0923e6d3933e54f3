//! `gemma3`: the text model of Gemma 3 (arXiv:2503.19786).
//!
//! Five layers with a sliding window and their own rope base, then one that sees everything; norms before and
//! after both halves of a block and over each head of q and k; embeddings times `sqrt(hidden)`. The `1 +` of its
//! norm weights is already in the file's numbers.

use super::blocks::{assemble, attention, block_norm, feed_forward, kv_heads, AttentionKind};
use super::hyper::{Common, Hyper};
use super::plan::{Activation, Layer, Mixer, Plan, Rope, RopeStyle};
use super::rope;
use super::tensors::Tensors;
use crate::error::Result;
use crate::gguf::Gguf;

/// Every sixth layer sees all positions, where the file does not say otherwise.
const PATTERN: usize = 6;
/// Rope base of the layers with a window, where the file does not say.
const LOCAL_BASE: f32 = 10_000.0;
/// The base of the others, where the file does not say.
const GLOBAL_BASE: f32 = 1_000_000.0;
/// The 27B model, which has no key of its own for it, scales scores by `1 / sqrt(hidden / heads)`; it alone has
/// this many layers.
const LAYERS_OF_27B: usize = 62;

pub(super) fn plan(gguf: &Gguf) -> Result<Plan> {
    let hyper = Hyper::new(gguf, "gemma3");
    let c = hyper.common()?;
    refuse_softcaps(&hyper)?;
    let window = hyper.size("attention.sliding_window", 1..=1 << 24)?;
    let pattern =
        hyper.opt_size("attention.sliding_window_pattern", 1..=c.layers.max(PATTERN))?.unwrap_or(PATTERN);
    let (local, global) = ropes(gguf, &hyper, &c)?;
    let kind = AttentionKind { head_norms: true, biased: false };
    let mut t = Tensors::new(gguf, hyper.arch, &[rope::FACTORS])?;
    let mut layers = Vec::with_capacity(c.layers);
    for (i, kv) in kv_heads(&hyper, &c)?.into_iter().enumerate() {
        let is_global = i % pattern == pattern - 1;
        let mut a = attention(&mut t, &c, i, kv, if is_global { &global } else { &local }, &kind)?;
        a.window = (!is_global).then_some(window);
        a.scale = score_scale(&c);
        layers.push(Layer {
            mixer_norm: block_norm(&mut t, &c, i, "attn_norm")?,
            mixer: Mixer::Attention(a),
            mixer_post_norm: Some(block_norm(&mut t, &c, i, "post_attention_norm")?),
            ffn_norm: block_norm(&mut t, &c, i, "ffn_norm")?,
            ffn: feed_forward(&mut t, &c, i, Activation::GeluTanh)?,
            ffn_post_norm: Some(block_norm(&mut t, &c, i, "post_ffw_norm")?),
        });
    }
    assemble(t, gguf, &c, layers, "output_norm.weight", (c.hidden as f32).sqrt())
}

/// Only the global rope is ever scaled.
fn ropes(gguf: &Gguf, hyper: &Hyper<'_>, c: &Common) -> Result<(Rope, Rope)> {
    let global = rope::from_keys_with(gguf, hyper, c.head_dim, RopeStyle::Halves, GLOBAL_BASE)?;
    let base = hyper.opt_positive("rope.freq_base_swa")?.unwrap_or(LOCAL_BASE);
    let local = rope::inverse_frequencies(base, rope::rotary(hyper, c.head_dim)?);
    Ok((Rope { style: RopeStyle::Halves, inv_freq: local.into() }, global))
}

fn score_scale(c: &Common) -> f32 {
    let d = if c.layers == LAYERS_OF_27B { c.hidden / c.n_heads } else { c.head_dim };
    1.0 / (d as f32).sqrt()
}

/// Gemma 2 squashes scores and logits; a file that asks for it here is none of this family.
fn refuse_softcaps(hyper: &Hyper<'_>) -> Result<()> {
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if hyper.opt_number(key)?.is_some_and(|x| x != 0.0) {
            return Err(hyper.unsupported(key, "not supported in this architecture"));
        }
    }
    Ok(())
}
