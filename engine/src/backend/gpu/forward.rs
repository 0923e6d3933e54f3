//! Executing a plan: one pass over the layers for all tokens of a batch.
//!
//! The kernels follow the shape of the work, the same way everywhere. Few tokens ([`FEW`]) are read-once
//! products with the norm in front, the residual sum or the gate behind them in one dispatch each; many are norms
//! and tiled products. Where every sequence has one new token, attention is one dispatch (heads normed and turned,
//! keys and values written, a part of the pages each) and one more that puts parts together; else three.

use super::kernels::FEW;
use super::lowrank::{self, Applied};
use super::model::{Attention, Layer, Mixer, Model, Norm, ShortConv};
use super::pass::{elementwise, flat, Recorder};
use super::scratch::Activations;
use super::states::States;
use super::weights::{Piece, Stack};
use crate::backend::{Updates, PAGE_TOKENS};
use crate::error::{Error, Result};
use crate::model::plan::Activation;
use lean_shaders as shaders;

/// `y = sum`.
const STORE: u32 = 0;
/// `y += sum`.
const ADD: u32 = 1;
/// `y = silu(first) * second` of pairs of rows.
const SILU: u32 = 2;
/// The same with GELU.
const GELU: u32 = 3;

/// What the kernels read about the batch.
pub struct Inputs {
    /// Tokens in all slots together.
    pub tokens: usize,
    /// `lean_shaders::Facts`.
    pub facts: wgpu::Buffer,
    /// Tokens that the device has chosen.
    pub chosen: wgpu::Buffer,
    /// Every sequence has one token.
    pub single: bool,
    /// Tiles of attention, where not.
    pub tiles: usize,
    /// Tokens of the longest sequence, after the pass.
    pub longest: usize,
    /// What sequences add to the weights.
    pub applied: Vec<Applied>,
}

/// Input of a product: rows of activations, and the norm that they go through first.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub x: &'a wgpu::Buffer,
    pub norm: Option<&'a Norm>,
    pub tokens: usize,
    pub applied: &'a [Applied],
}

/// Elements that the parts of attention take at most, where each of so many sequences has one new token.
pub fn part_elems(model: &Model, tokens: usize) -> usize {
    let elems = model.layers.iter().map(|layer| match &layer.mixer {
        Mixer::Attention(a) => tokens * a.params.heads as usize * a.params.parts as usize * (a.head_dim + 4),
        Mixer::ShortConv(_) => 0,
    });
    elems.max().unwrap_or(0)
}

impl Model {
    /// Runs all layers; the result is `a.h`, before the final norm.
    pub fn layers(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        inputs: &Inputs,
        states: &States,
    ) -> Result<()> {
        self.embed(r, a, inputs)?;
        for (index, layer) in self.layers.iter().enumerate() {
            self.mixer(r, a, inputs, layer, (states.windows(index), states.pages(index)))?;
            self.feed_forward(r, a, layer, inputs)?;
        }
        Ok(())
    }

    fn embed(&self, r: &mut Recorder<'_>, a: &Activations, inputs: &Inputs) -> Result<()> {
        let stack = &self.embedding;
        for piece in &stack.pieces {
            let params = shaders::EmbedParams {
                tokens: inputs.tokens as u32,
                groups: stack.groups() as u32,
                vocab: self.vocab as u32,
                row_begin: piece.row_begin as u32,
                row_end: (piece.row_begin + piece.rows) as u32,
                scale: self.embedding_scale,
            };
            let buffers = [&inputs.facts, &inputs.chosen, &piece.weights, &piece.scales, &a.h];
            let grid = elementwise(inputs.tokens * stack.groups(), 64);
            r.dispatch(self.kernels.embed(piece.format)?, &params, &buffers, grid)?;
        }
        Ok(())
    }

    /// `y = norm(x)` for rows of the norm's width, or `y += norm(x)`.
    fn norm(
        &self,
        r: &mut Recorder<'_>,
        norm: &Norm,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        rows: usize,
        add: bool,
    ) -> Result<()> {
        let params = shaders::RmsNormParams { rows: rows as u32, cols: norm.width as u32, eps: norm.eps };
        r.dispatch(self.kernels.norm(add)?, &params, &[x, &norm.weight, y], flat(rows))
    }

    /// A product: `y` becomes what `mode` says of `stack (norm(x))`. With `few` the kernels for few tokens are taken whatever their number.
    fn product(
        &self,
        r: &mut Recorder<'_>,
        stack: &Stack,
        source: Source<'_>,
        a: &Activations,
        y: &wgpu::Buffer,
        (mode, few): (u32, bool),
    ) -> Result<()> {
        let Source { mut x, mut norm, tokens, applied } = source;
        let updated = lowrank::touches(applied, stack);
        if let Some(apart) = norm.filter(|_| !few || updated) {
            self.norm(r, apart, x, &a.normed, tokens, false)?;
            (x, norm) = (&a.normed, None);
        }
        let groups = stack.groups();
        let alone = few && self.kernels.takes_alone(groups, tokens);
        let bytes = |piece: &Piece| few && self.kernels.takes_bytes(piece.format);
        if !alone && stack.pieces.iter().any(bytes) {
            let params = shaders::QuantiseParams { groups: groups as u32, eps: norm.map_or(0.0, |n| n.eps) };
            let weight = norm.map_or(&self.nothing, |n| &n.weight);
            let (kernel, grid) = self.kernels.quantise(norm.is_some(), groups, tokens)?;
            r.dispatch(kernel, &params, &[x, weight, &a.quantised], grid)?;
        }
        let stride = if mode >= SILU { stack.rows / 2 } else { stack.rows };
        for piece in &stack.pieces {
            let params = shaders::ProductParams {
                rows: piece.rows as u32,
                groups: stack.groups() as u32,
                tokens: tokens as u32,
                row_begin: piece.row_begin as u32,
                stride: stride as u32,
                mode,
                has_bias: u32::from(stack.bias.is_some()),
                eps: norm.map_or(0.0, |n| n.eps),
            };
            let bias = stack.bias.as_ref().unwrap_or(&self.nothing);
            let weight = match norm {
                Some(n) if alone && bytes(piece) => &n.weight,
                Some(n) => &n.by_vector,
                None => &self.nothing,
            };
            let mut buffers = [&piece.weights, &piece.scales, x, weight, bias, y];
            let (kernel, grid) = match few {
                _ if alone && bytes(piece) => {
                    self.kernels.alone(piece.format, groups, norm.is_some(), piece.rows)?
                }
                _ if bytes(piece) => {
                    (buffers[2], buffers[3]) = (&a.quantised, &self.nothing);
                    self.kernels.few_bytes(piece.format, piece.rows, tokens)?
                }
                true => self.kernels.few(piece.format, stack.groups(), norm.is_some(), piece.rows, tokens)?,
                false => self.kernels.many(piece.format, piece.rows, tokens)?,
            };
            r.dispatch(kernel, &params, &buffers, grid)?;
        }
        if updated {
            lowrank::add(r, &self.kernels, applied, stack, x, &a.low, y)?;
        }
        Ok(())
    }

    /// `y = W norm(h)` for the rows that get logits. Always by the kernels for few tokens, so that a row's logits do
    /// not depend on how many others are wanted.
    pub fn head(
        &self,
        r: &mut Recorder<'_>,
        x: &wgpu::Buffer,
        a: &Activations,
        y: &wgpu::Buffer,
        rows: usize,
    ) -> Result<()> {
        let source = Source { x, norm: Some(&self.final_norm), tokens: rows, applied: &[] };
        self.product(r, &self.head, source, a, y, (STORE, true))
    }

    /// `h += post(W x)`.
    fn residual(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        stack: &Stack,
        x: &wgpu::Buffer,
        post: Option<&Norm>,
        inputs: &Inputs,
    ) -> Result<()> {
        let tokens = inputs.tokens;
        let source = Source { x, norm: None, tokens, applied: &inputs.applied };
        let few = tokens <= FEW;
        match post {
            None => self.product(r, stack, source, a, &a.h, (ADD, few)),
            Some(norm) => {
                self.product(r, stack, source, a, &a.out, (STORE, few))?;
                self.norm(r, norm, &a.out, &a.h, tokens, true)
            }
        }
    }

    fn mixer(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        inputs: &Inputs,
        layer: &Layer,
        (windows, pages): (&wgpu::Buffer, &wgpu::Buffer),
    ) -> Result<()> {
        let (tokens, post) = (inputs.tokens, layer.mixer_post_norm.as_ref());
        let source = Source { x: &a.h, norm: Some(&layer.mixer_norm), tokens, applied: &inputs.applied };
        let how = (STORE, tokens <= FEW);
        match &layer.mixer {
            Mixer::Attention(attention) => {
                self.product(r, &attention.qkv, source, a, &a.mixer_in, how)?;
                if inputs.single {
                    self.attend_step(r, a, inputs, attention, pages)?;
                } else {
                    self.attend(r, a, inputs, attention, pages)?;
                }
                self.residual(r, a, &attention.o, &a.mixed, post, inputs)
            }
            Mixer::ShortConv(conv) => {
                self.product(r, &conv.in_proj, source, a, &a.mixer_in, how)?;
                self.short_conv(r, a, inputs, conv, windows, pages)?;
                self.residual(r, a, &conv.out_proj, &a.mixed, post, inputs)
            }
        }
    }

    /// One new token of every sequence.
    fn attend_step(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        inputs: &Inputs,
        attention: &Attention,
        pages: &wgpu::Buffer,
    ) -> Result<()> {
        let (heads, tokens) = (attention.params.heads as usize, inputs.tokens);
        let params = &attention.params;
        let seen = attention.window.map_or(inputs.longest, |w| inputs.longest.min(w + PAGE_TOKENS));
        let pages_seen = seen.div_ceil(PAGE_TOKENS);
        // Enough for the longest sequence; each is cut by its own length.
        let parts =
            if pages_seen <= params.alone as usize { 1 } else { pages_seen.min(params.parts as usize) };
        let blocks = heads / attention.group;
        let out = if parts == 1 { &a.mixed } else { &a.parts };
        let (q_norm, k_norm) = self.head_norms(attention);
        let buffers = [&inputs.facts, &a.mixer_in, q_norm, k_norm, pages, out];
        let kernel = self.kernels.attention_step(attention.head_dim, attention.group)?;
        r.dispatch(kernel, &attention.params, &buffers, [blocks as u32, parts as u32, tokens as u32])?;
        if parts > 1 {
            let params = shaders::MergeParams { heads: (tokens * heads) as u32, parts: parts as u32 };
            let kernel = self.kernels.merge(attention.head_dim)?;
            r.dispatch(kernel, &params, &[&a.parts, &a.mixed], [(tokens * heads) as u32, 1, 1])?;
        }
        Ok(())
    }

    fn head_norms<'b>(&'b self, attention: &'b Attention) -> (&'b wgpu::Buffer, &'b wgpu::Buffer) {
        let of = |norm: &'b Option<wgpu::Buffer>| norm.as_ref().unwrap_or(&self.nothing);
        (of(&attention.q_norm), of(&attention.k_norm))
    }

    /// Any tokens.
    fn attend(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        inputs: &Inputs,
        attention: &Attention,
        pages: &wgpu::Buffer,
    ) -> Result<()> {
        let params = &attention.params;
        let (q_norm, k_norm) = self.head_norms(attention);
        let buffers = [&inputs.facts, q_norm, k_norm, &a.mixer_in, pages];
        let kernel = self.kernels.rope_append(attention.head_dim)?;
        let grid = [params.heads + 2 * params.kv_heads, inputs.tokens as u32, 1];
        r.dispatch(kernel, params, &buffers, grid)?;
        let kernel = self.kernels.attention(attention.head_dim)?;
        let buffers = [&inputs.facts, &a.mixer_in, pages, &a.mixed];
        r.dispatch(kernel, params, &buffers, [params.heads, inputs.tiles as u32, 1])
    }

    fn short_conv(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        inputs: &Inputs,
        conv: &ShortConv,
        windows: &wgpu::Buffer,
        pages: &wgpu::Buffer,
    ) -> Result<()> {
        let params = shaders::ShortConvParams {
            tokens: inputs.tokens as u32,
            channels: conv.channels as u32,
            taps: conv.taps as u32,
        };
        let buffers = [&inputs.facts, &a.mixer_in, &conv.kernel, windows, pages, &a.mixed];
        let grid = elementwise(inputs.tokens * conv.channels, 256);
        r.dispatch(self.kernels.short_conv()?, &params, &buffers, grid)
    }

    fn feed_forward(
        &self,
        r: &mut Recorder<'_>,
        a: &Activations,
        layer: &Layer,
        inputs: &Inputs,
    ) -> Result<()> {
        let (tokens, stack) = (inputs.tokens, &layer.gate_up);
        let source = Source { x: &a.h, norm: Some(&layer.ffn_norm), tokens, applied: &inputs.applied };
        let few = tokens <= FEW;
        if stack.paired && !lowrank::touches(&inputs.applied, stack) {
            let mode = match layer.activation {
                Activation::Silu => SILU,
                Activation::GeluTanh => GELU,
            };
            self.product(r, stack, source, a, &a.gated, (mode, few))?;
        } else {
            self.product(r, stack, source, a, &a.both, (STORE, few))?;
            let width = stack.rows / 2;
            let params = shaders::GateParams { tokens: tokens as u32, width: width as u32 };
            let kernel = self.kernels.gate(layer.activation, stack.paired)?;
            r.dispatch(kernel, &params, &[&a.both, &a.gated], elementwise(tokens * width, 256))?;
        }
        self.residual(r, a, &layer.down, &a.gated, layer.ffn_post_norm.as_ref(), inputs)
    }

    /// Whether updates fit the matrices that they are for.
    pub fn check_updates(&self, updates: &Updates) -> Result<()> {
        for (id, update) in updates.0.iter().flat_map(|(set, _)| set.iter()) {
            let mut stacks = self.layers.iter().flat_map(Layer::stacks);
            let fits = stacks.any(|stack| stack.has(*id, update.rows(), update.cols()));
            if !fits {
                let reason =
                    format!("tensor {} of the layers is not {} x {}", id.0, update.rows(), update.cols());
                return Err(Error::invalid("low-rank update", reason));
            }
        }
        Ok(())
    }
}
