//! `lfm2`: gated short convolutions interleaved with attention (Liquid AI's LFM2).
//!
//! `attention.head_count_kv` has one number a layer; zero marks a convolution. The norm before the mixer is
//! called `attn_norm` in both kinds of layer, and the final norm `token_embd_norm`.

use super::blocks::{assemble, attention, block_norm, feed_forward, AttentionKind};
use super::hyper::{Common, Hyper};
use super::plan::{Activation, Layer, Mixer, Plan, RopeStyle, ShortConv};
use super::rope;
use super::tensors::Tensors;
use crate::error::Result;
use crate::gguf::Gguf;

/// Taps of a convolution; the models have 3.
const TAPS: std::ops::RangeInclusive<usize> = 1..=64;

pub(super) fn plan(gguf: &Gguf) -> Result<Plan> {
    let hyper = Hyper::new(gguf, "lfm2");
    let c = hyper.common()?;
    let taps = hyper.size("shortconv.l_cache", TAPS)?;
    let rope = rope::from_keys(gguf, &hyper, c.head_dim, RopeStyle::Halves)?;
    let kind = AttentionKind { head_norms: true, biased: false };
    let mut t = Tensors::new(gguf, hyper.arch, &[rope::FACTORS])?;
    let mut layers = Vec::with_capacity(c.layers);
    for (i, kv) in hyper.per_layer("attention.head_count_kv", c.layers)?.into_iter().enumerate() {
        layers.push(Layer {
            mixer_norm: block_norm(&mut t, &c, i, "attn_norm")?,
            mixer: match kv {
                0 => Mixer::ShortConv(short_conv(&mut t, &c, i, taps)?),
                n => Mixer::Attention(attention(&mut t, &c, i, c.kv_heads(&hyper, n)?, &rope, &kind)?),
            },
            mixer_post_norm: None,
            ffn_norm: block_norm(&mut t, &c, i, "ffn_norm")?,
            ffn: feed_forward(&mut t, &c, i, Activation::Silu)?,
            ffn_post_norm: None,
        });
    }
    assemble(t, gguf, &c, layers, "token_embd_norm.weight", 1.0)
}

/// As many channels as the residual stream is wide.
fn short_conv(t: &mut Tensors, c: &Common, layer: usize, taps: usize) -> Result<ShortConv> {
    let name = |part: &str| format!("blk.{layer}.shortconv.{part}");
    Ok(ShortConv {
        in_proj: t.linear(&name("in_proj"), 3 * c.hidden, c.hidden)?,
        kernel: t.float(&name("conv.weight"), c.hidden, taps)?,
        out_proj: t.linear(&name("out_proj"), c.hidden, c.hidden)?,
        channels: c.hidden,
        taps,
    })
}
