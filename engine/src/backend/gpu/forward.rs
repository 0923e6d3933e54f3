//! Executing a plan: one pass over the layers for all tokens of a batch.

use super::kernels::Kernels;
use super::pass::{elementwise, flat, matmul_groups, Pass};
use super::scratch::Activations;
use super::states::States;
use super::weights::Weight;
use crate::error::Result;
use crate::model::plan::{Attention, FeedForward, Linear, Mixer, Norm, Plan, Rope, ShortConv, TensorId};
use lean_shaders as shaders;

/// What the kernels read about the batch.
pub struct Inputs {
    /// Tokens in all slots together.
    pub tokens: usize,
    /// `[tokens]` u32.
    pub ids: wgpu::Buffer,
    /// `[tokens]` of `Token`.
    pub meta: wgpu::Buffer,
    /// `[slots]` of `ConvSlot`.
    pub slots: wgpu::Buffer,
    /// Page tables of all slots.
    pub table: wgpu::Buffer,
    /// `[tokens][pairs]` of (cos, sin), for every distinct set of frequencies.
    pub angles: Vec<wgpu::Buffer>,
}

/// All that stays the same from pass to pass.
pub struct Model {
    pub plan: Plan,
    pub weights: Vec<Weight>,
    pub kernels: Kernels,
    /// Distinct inverse frequencies.
    pub frequencies: Vec<std::sync::Arc<[f32]>>,
}

impl Model {
    /// The distinct inverse frequencies of a plan.
    pub fn frequencies(plan: &Plan) -> Vec<std::sync::Arc<[f32]>> {
        let mut all: Vec<std::sync::Arc<[f32]>> = Vec::new();
        for layer in &plan.layers {
            if let Mixer::Attention(a) = &layer.mixer {
                if !all.contains(&a.rope.inv_freq) {
                    all.push(a.rope.inv_freq.clone());
                }
            }
        }
        all
    }

    fn weight(&self, id: TensorId) -> &Weight {
        &self.weights[id.0]
    }

    /// Runs all layers; the result is `a.h`, before the final norm.
    pub fn layers(&self, pass: &mut Pass, a: &Activations, inputs: &Inputs, states: &States) -> Result<()> {
        let plan = &self.plan;
        self.embed(pass, a, inputs);
        for (index, layer) in plan.layers.iter().enumerate() {
            self.norm(pass, &layer.mixer_norm, &a.h, &a.normed, inputs.tokens);
            match &layer.mixer {
                Mixer::Attention(attention) => {
                    self.attention(pass, a, inputs, attention, states.pages(index))?
                }
                Mixer::ShortConv(conv) => {
                    self.short_conv(pass, a, inputs, conv, states.windows(index), states.pages(index));
                }
            }
            self.add(pass, a, layer.mixer_post_norm.as_ref(), inputs.tokens);
            self.norm(pass, &layer.ffn_norm, &a.h, &a.normed, inputs.tokens);
            self.feed_forward(pass, a, &layer.ffn, inputs.tokens);
            self.add(pass, a, layer.ffn_post_norm.as_ref(), inputs.tokens);
        }
        Ok(())
    }

    fn embed(&self, pass: &mut Pass, a: &Activations, inputs: &Inputs) {
        let plan = &self.plan;
        for piece in &self.weight(plan.embedding).pieces {
            let params = shaders::EmbedParams {
                tokens: inputs.tokens as u32,
                hidden: plan.hidden as u32,
                vocab: plan.vocab as u32,
                row_begin: piece.row_begin as u32,
                row_end: (piece.row_begin + piece.rows) as u32,
                scale: plan.embedding_scale,
            };
            let buffers = [&inputs.ids, &piece.buffer, &a.h];
            pass.dispatch(&self.kernels.embed, &params, &buffers, elementwise(inputs.tokens * plan.hidden));
        }
    }

    /// `y = norm(x)` for `rows` rows of the norm's width.
    pub fn norm(&self, pass: &mut Pass, norm: &Norm, x: &wgpu::Buffer, y: &wgpu::Buffer, rows: usize) {
        let weight = self.weight(norm.weight);
        let params = shaders::RmsNormParams { rows: rows as u32, cols: weight.cols as u32, eps: norm.eps };
        pass.dispatch(&self.kernels.rms_norm, &params, &[x, weight.vector(), y], flat(rows));
    }

    fn linear(&self, pass: &mut Pass, linear: &Linear, x: &wgpu::Buffer, y: &wgpu::Buffer, tokens: usize) {
        self.matmul(pass, linear.weight, linear.bias, x, y, tokens);
    }

    /// `y = W x (+ b)`.
    pub fn matmul(
        &self,
        pass: &mut Pass,
        weight: TensorId,
        bias: Option<TensorId>,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        tokens: usize,
    ) {
        let weight = self.weight(weight);
        for piece in &weight.pieces {
            let params = shaders::MatmulParams {
                rows: piece.rows as u32,
                cols: weight.cols as u32,
                tokens: tokens as u32,
                row_begin: piece.row_begin as u32,
                stride: weight.rows as u32,
                has_bias: u32::from(bias.is_some()),
            };
            // A binding cannot be left empty: without a bias the weight stands there unread.
            let bias = bias.map_or(&piece.buffer, |b| self.weight(b).vector());
            let (kernel, tile) = self.kernels.matmul(tokens);
            let groups = matmul_groups(piece.rows, tokens, tile);
            pass.dispatch(kernel, &params, &[&piece.buffer, x, bias, y], groups);
        }
    }

    /// `h += post(out)`.
    fn add(&self, pass: &mut Pass, a: &Activations, post: Option<&Norm>, tokens: usize) {
        let [out, normed] = &a.out;
        let x = match post {
            Some(norm) => {
                self.norm(pass, norm, out, normed, tokens);
                normed
            }
            None => out,
        };
        let count = tokens * self.plan.hidden;
        pass.dispatch(
            &self.kernels.add,
            &shaders::AddParams { count: count as u32 },
            &[x, &a.h],
            elementwise(count),
        );
    }

    fn attention(
        &self,
        pass: &mut Pass,
        a: &Activations,
        inputs: &Inputs,
        attention: &Attention,
        pages: &wgpu::Buffer,
    ) -> Result<()> {
        let tokens = inputs.tokens;
        let (heads, kv_heads, head_dim) = (attention.n_heads, attention.n_kv_heads, attention.head_dim);
        self.linear(pass, &attention.q, &a.normed, &a.q[0], tokens);
        self.linear(pass, &attention.k, &a.normed, &a.k[0], tokens);
        self.linear(pass, &attention.v, &a.normed, &a.v, tokens);
        let q = self.head_norm(pass, attention.q_norm.as_ref(), &a.q, tokens * heads);
        let k = self.head_norm(pass, attention.k_norm.as_ref(), &a.k, tokens * kv_heads);
        self.rope(pass, &attention.rope, inputs, q, heads, head_dim);
        self.rope(pass, &attention.rope, inputs, k, kv_heads, head_dim);

        let params = shaders::KvAppendParams {
            tokens: tokens as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
        };
        let buffers = [&inputs.meta, &inputs.table, k, &a.v, pages];
        pass.dispatch(&self.kernels.kv_append, &params, &buffers, elementwise(tokens * kv_heads * head_dim));

        let params = shaders::AttentionParams {
            tokens: tokens as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            window: attention.window.unwrap_or(0) as u32,
            scale: attention.scale,
        };
        let buffers = [&inputs.meta, &inputs.table, q, pages, &a.mixed];
        let kernel = self.kernels.attention(head_dim)?;
        pass.dispatch(kernel, &params, &buffers, [heads as u32, tokens as u32, 1]);
        self.linear(pass, &attention.o, &a.mixed, &a.out[0], tokens);
        Ok(())
    }

    /// The buffer that holds the heads afterwards.
    fn head_norm<'b>(
        &self,
        pass: &mut Pass,
        norm: Option<&Norm>,
        buffers: &'b [wgpu::Buffer; 2],
        rows: usize,
    ) -> &'b wgpu::Buffer {
        let [plain, normed] = buffers;
        match norm {
            Some(norm) => {
                self.norm(pass, norm, plain, normed, rows);
                normed
            }
            None => plain,
        }
    }

    fn rope(
        &self,
        pass: &mut Pass,
        rope: &Rope,
        inputs: &Inputs,
        x: &wgpu::Buffer,
        heads: usize,
        head_dim: usize,
    ) {
        let pairs = rope.inv_freq.len();
        let Some(set) = self.frequencies.iter().position(|f| *f == rope.inv_freq) else { return };
        let params = shaders::RopeParams {
            tokens: inputs.tokens as u32,
            heads: heads as u32,
            head_dim: head_dim as u32,
            pairs: pairs as u32,
        };
        let kernel = self.kernels.rope(rope.style);
        pass.dispatch(kernel, &params, &[&inputs.angles[set], x], elementwise(inputs.tokens * heads * pairs));
    }

    fn short_conv(
        &self,
        pass: &mut Pass,
        a: &Activations,
        inputs: &Inputs,
        conv: &ShortConv,
        windows: &wgpu::Buffer,
        pages: &wgpu::Buffer,
    ) {
        let [projected, _] = &a.q;
        self.linear(pass, &conv.in_proj, &a.normed, projected, inputs.tokens);
        let params = shaders::ShortConvParams {
            tokens: inputs.tokens as u32,
            channels: conv.channels as u32,
            taps: conv.taps as u32,
        };
        let kernel = self.weight(conv.kernel).vector();
        let buffers =
            [&inputs.meta, &inputs.slots, &inputs.table, projected, kernel, windows, pages, &a.mixed];
        pass.dispatch(
            &self.kernels.short_conv,
            &params,
            &buffers,
            elementwise(inputs.tokens * conv.channels),
        );
        self.linear(pass, &conv.out_proj, &a.mixed, &a.out[0], inputs.tokens);
    }

    fn feed_forward(&self, pass: &mut Pass, a: &Activations, ffn: &FeedForward, tokens: usize) {
        self.linear(pass, &ffn.gate, &a.normed, &a.gate, tokens);
        self.linear(pass, &ffn.up, &a.normed, &a.up, tokens);
        let count = tokens * self.weight(ffn.gate.weight).rows;
        let params = shaders::GateParams { count: count as u32 };
        pass.dispatch(self.kernels.gate(ffn.activation), &params, &[&a.up, &a.gate], elementwise(count));
        self.linear(pass, &ffn.down, &a.gate, &a.out[0], tokens);
    }
}
