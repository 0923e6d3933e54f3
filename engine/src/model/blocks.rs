//! Pieces that several architectures put together in the same way and under the same tensor names.

use super::hyper::{Common, Hyper};
use super::plan::{Activation, Attention, FeedForward, Layer, Norm, Plan, Rope, TensorId};
use super::tensors::Tensors;
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use std::ops::RangeInclusive;

/// Rows of an embedding.
const VOCAB: RangeInclusive<usize> = 1..=1 << 22;

/// What differs between the attentions of the families.
pub(super) struct AttentionKind {
    /// `attn_q_norm` and `attn_k_norm` over each head.
    pub(super) head_norms: bool,
    /// q, k and v always have a bias.
    pub(super) biased: bool,
}

/// `blk.N.attn_{q,k,v,output}`, all positions visible, scores times `1 / sqrt(head_dim)`.
pub(super) fn attention(
    t: &mut Tensors,
    c: &Common,
    layer: usize,
    n_kv_heads: usize,
    rope: &Rope,
    kind: &AttentionKind,
) -> Result<Attention> {
    let d = c.head_dim;
    let mut project = |part: &str, heads: usize| {
        let stem = format!("blk.{layer}.attn_{part}");
        if kind.biased {
            t.biased(&stem, heads * d, c.hidden)
        } else {
            t.linear(&stem, heads * d, c.hidden)
        }
    };
    let (q, k, v) = (project("q", c.n_heads)?, project("k", n_kv_heads)?, project("v", n_kv_heads)?);
    let mut norm = |part: &str| match kind.head_norms {
        true => t.norm(&format!("blk.{layer}.attn_{part}_norm.weight"), d, c.eps).map(Some),
        false => Ok(None),
    };
    let (q_norm, k_norm) = (norm("q")?, norm("k")?);
    let o = t.linear(&format!("blk.{layer}.attn_output"), c.hidden, c.n_heads * d)?;
    Ok(Attention {
        q,
        k,
        v,
        o,
        q_norm,
        k_norm,
        n_heads: c.n_heads,
        n_kv_heads,
        head_dim: d,
        rope: rope.clone(),
        scale: 1.0 / (d as f32).sqrt(),
        window: None,
    })
}

/// `blk.N.ffn_{gate,up,down}`.
pub(super) fn feed_forward(
    t: &mut Tensors,
    c: &Common,
    layer: usize,
    activation: Activation,
) -> Result<FeedForward> {
    Ok(FeedForward {
        gate: t.linear(&format!("blk.{layer}.ffn_gate"), c.ffn, c.hidden)?,
        up: t.linear(&format!("blk.{layer}.ffn_up"), c.ffn, c.hidden)?,
        down: t.linear(&format!("blk.{layer}.ffn_down"), c.hidden, c.ffn)?,
        activation,
    })
}

/// The norm `blk.N.<part>.weight` over the residual stream.
pub(super) fn block_norm(t: &mut Tensors, c: &Common, layer: usize, part: &str) -> Result<Norm> {
    t.norm(&format!("blk.{layer}.{part}.weight"), c.hidden, c.eps)
}

/// `token_embd.weight` and its number of rows.
pub(super) fn embedding(t: &mut Tensors, gguf: &Gguf, c: &Common) -> Result<(TensorId, usize)> {
    const NAME: &str = "token_embd.weight";
    let vocab = t.rows_of(NAME)?;
    let tokens = gguf.metadata.opt_strings("tokenizer.ggml.tokens")?.map_or(0, <[String]>::len);
    if !VOCAB.contains(&vocab) || vocab < tokens {
        let reason = format!("{vocab} rows for {tokens} tokens of the tokenizer");
        return Err(Error::bad_model(format_args!("tensor {NAME}"), reason));
    }
    Ok((t.matrix(NAME, vocab, c.hidden)?, vocab))
}

/// Joins layers with embedding, final norm and head (tied when `output.weight` is absent).
pub(super) fn assemble(
    mut t: Tensors,
    gguf: &Gguf,
    c: &Common,
    layers: Vec<Layer>,
    final_norm: &str,
    embedding_scale: f32,
) -> Result<Plan> {
    let (embedding, vocab) = embedding(&mut t, gguf, c)?;
    let final_norm = t.norm(final_norm, c.hidden, c.eps)?;
    let head = t.optional("output.weight", vocab, c.hidden)?.unwrap_or(embedding);
    Ok(Plan {
        tensors: t.finish()?,
        vocab,
        hidden: c.hidden,
        context_length: c.context_length,
        embedding,
        embedding_scale,
        layers,
        final_norm,
        head,
    })
}

/// Key/value heads of every layer; where the key is absent every query head has its own.
pub(super) fn kv_heads(hyper: &Hyper<'_>, c: &Common) -> Result<Vec<usize>> {
    const KEY: &str = "attention.head_count_kv";
    if !hyper.has(KEY) {
        return Ok(vec![c.n_heads; c.layers]);
    }
    hyper.per_layer(KEY, c.layers)?.into_iter().map(|n| c.kv_heads(hyper, n)).collect()
}

/// The layers of a plain decoder: attention and a SwiGLU feed-forward, each behind an RMSNorm.
pub(super) fn decoder_layers(
    t: &mut Tensors,
    hyper: &Hyper<'_>,
    c: &Common,
    rope: &Rope,
    kind: &AttentionKind,
) -> Result<Vec<Layer>> {
    let layer = |(i, n): (usize, &usize)| {
        Ok(Layer {
            mixer_norm: block_norm(t, c, i, "attn_norm")?,
            mixer: super::plan::Mixer::Attention(attention(t, c, i, *n, rope, kind)?),
            mixer_post_norm: None,
            ffn_norm: block_norm(t, c, i, "ffn_norm")?,
            ffn: feed_forward(t, c, i, Activation::Silu)?,
            ffn_post_norm: None,
        })
    };
    kv_heads(hyper, c)?.iter().enumerate().map(layer).collect()
}
