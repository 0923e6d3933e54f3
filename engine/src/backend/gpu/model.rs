//! A plan bound to its weights on the device.

use super::kernels::Kernels;
use super::weights::{Stack, Uploader};
use crate::error::{Error, Result};
use crate::model::plan::{self, Activation, Plan, RopeStyle};
use lean_shaders::{AttentionParams, MAX_ANGLE_SETS};
use std::sync::Arc;

/// RMSNorm.
pub struct Norm {
    pub weight: wgpu::Buffer,
    /// The same as the products for few tokens read it: `[vector of a group][group]`.
    pub by_vector: wgpu::Buffer,
    pub width: usize,
    pub eps: f32,
}

/// Attention; rows of `qkv` are query, key and value heads.
pub struct Attention {
    pub qkv: Stack,
    pub o: Stack,
    pub q_norm: Option<wgpu::Buffer>,
    pub k_norm: Option<wgpu::Buffer>,
    pub head_dim: usize,
    /// Query heads of a workgroup of a decode step.
    pub group: usize,
    /// Tokens seen; `None` sees all.
    pub window: Option<usize>,
    pub params: AttentionParams,
}

/// Gated short convolution.
pub struct ShortConv {
    pub in_proj: Stack,
    pub kernel: wgpu::Buffer,
    pub out_proj: Stack,
    pub channels: usize,
    pub taps: usize,
}

/// How a layer mixes positions.
pub enum Mixer {
    Attention(Box<Attention>),
    ShortConv(Box<ShortConv>),
}

/// One block.
pub struct Layer {
    pub mixer_norm: Norm,
    pub mixer: Mixer,
    pub mixer_post_norm: Option<Norm>,
    pub ffn_norm: Norm,
    /// Gate and up; in pairs of rows where both have one type.
    pub gate_up: Stack,
    pub down: Stack,
    pub activation: Activation,
    pub ffn_post_norm: Option<Norm>,
}

impl Layer {
    /// All its matrices.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        let mixer = match &self.mixer {
            Mixer::Attention(a) => [&a.qkv, &a.o],
            Mixer::ShortConv(c) => [&c.in_proj, &c.out_proj],
        };
        mixer.into_iter().chain([&self.gate_up, &self.down])
    }
}

/// All that stays the same from pass to pass.
pub struct Model {
    pub vocab: usize,
    pub hidden: usize,
    pub embedding: Arc<Stack>,
    pub embedding_scale: f32,
    pub layers: Vec<Layer>,
    pub final_norm: Norm,
    pub head: Arc<Stack>,
    /// Distinct inverse frequencies.
    pub frequencies: Vec<Arc<[f32]>>,
    pub kernels: Kernels,
    /// Stands where a kernel has a binding that it does not read.
    pub nothing: wgpu::Buffer,
}

/// Heads that a workgroup can hold.
const MOST_HEADS: usize = 8;
/// Elements of the query heads that a workgroup can hold.
const MOST_QUERY: usize = 1024;

/// Workgroups that attention of one new token should have at least, so that every core of a large device has some.
/// `attention_merge` takes no more parts than this.
const PARTS_TOGETHER: usize = 256;
/// Pages that are not worth sharing out: putting parts together is a dispatch more.
const PAGES_ALONE: u32 = 2;

/// The query heads of a workgroup: as many as share a kv head, or a part of them.
fn heads_together(shared: usize, head_dim: usize) -> usize {
    let fits = |n: &usize| shared.is_multiple_of(*n) && n * head_dim <= MOST_QUERY;
    (1..=MOST_HEADS.min(shared)).rev().find(fits).unwrap_or(1)
}

/// The distinct inverse frequencies of a plan.
pub fn frequencies(plan: &Plan) -> Result<Vec<Arc<[f32]>>> {
    let mut all: Vec<Arc<[f32]>> = Vec::new();
    for layer in &plan.layers {
        if let plan::Mixer::Attention(a) = &layer.mixer {
            if !all.contains(&a.rope.inv_freq) {
                all.push(a.rope.inv_freq.clone());
            }
        }
    }
    if all.len() > MAX_ANGLE_SETS {
        let reason = format!("{} sets of rotary frequencies; the GPU takes {MAX_ANGLE_SETS}", all.len());
        return Err(Error::Device { reason });
    }
    Ok(all)
}

/// Uploads the layers of a plan.
pub struct Binder<'a, 'b> {
    pub plan: &'a Plan,
    pub frequencies: &'a [Arc<[f32]>],
    pub to: &'a mut Uploader<'b>,
}

impl Binder<'_, '_> {
    /// A norm.
    pub fn norm(&mut self, norm: &plan::Norm) -> Result<Norm> {
        let width = self.plan.tensor(norm.weight).cols;
        let (weight, by_vector) = self.to.norm(norm.weight)?;
        Ok(Norm { weight, by_vector, width, eps: norm.eps })
    }

    fn some_norm(&mut self, norm: &Option<plan::Norm>) -> Result<Option<Norm>> {
        norm.as_ref().map(|norm| self.norm(norm)).transpose()
    }

    /// A block.
    pub fn layer(&mut self, layer: &plan::Layer) -> Result<Layer> {
        let mixer_norm = self.norm(&layer.mixer_norm)?;
        let mixer = match &layer.mixer {
            plan::Mixer::Attention(a) => Mixer::Attention(Box::new(self.attention(a)?)),
            plan::Mixer::ShortConv(c) => Mixer::ShortConv(Box::new(ShortConv {
                in_proj: self.to.stack(&[&c.in_proj], false)?,
                kernel: self.to.vector(c.kernel)?,
                out_proj: self.to.stack(&[&c.out_proj], false)?,
                channels: c.channels,
                taps: c.taps,
            })),
        };
        Ok(Layer {
            mixer_norm,
            mixer,
            mixer_post_norm: self.some_norm(&layer.mixer_post_norm)?,
            ffn_norm: self.norm(&layer.ffn_norm)?,
            gate_up: self.to.stack(&[&layer.ffn.gate, &layer.ffn.up], true)?,
            down: self.to.stack(&[&layer.ffn.down], false)?,
            activation: layer.ffn.activation,
            ffn_post_norm: self.some_norm(&layer.ffn_post_norm)?,
        })
    }

    fn attention(&mut self, a: &plan::Attention) -> Result<Attention> {
        let set = self.frequencies.iter().position(|f| *f == a.rope.inv_freq).unwrap_or(0);
        let eps = |norm: &Option<plan::Norm>| norm.as_ref().map_or(0.0, |n| n.eps);
        let group = heads_together(a.n_heads / a.n_kv_heads.max(1), a.head_dim);
        let params = AttentionParams {
            heads: a.n_heads as u32,
            kv_heads: a.n_kv_heads as u32,
            window: a.window.unwrap_or(0) as u32,
            scale: a.scale,
            pairs: a.rope.inv_freq.len() as u32,
            halves: u32::from(a.rope.style == RopeStyle::Halves),
            angles: set as u32,
            q_norm: u32::from(a.q_norm.is_some()),
            k_norm: u32::from(a.k_norm.is_some()),
            q_eps: eps(&a.q_norm),
            k_eps: eps(&a.k_norm),
            parts: PARTS_TOGETHER.div_ceil(a.n_heads / group) as u32,
            alone: PAGES_ALONE,
        };
        let q_norm = a.q_norm.as_ref().map(|n| self.to.vector(n.weight)).transpose()?;
        let k_norm = a.k_norm.as_ref().map(|n| self.to.vector(n.weight)).transpose()?;
        Ok(Attention {
            qkv: self.to.stack(&[&a.q, &a.k, &a.v], false)?,
            o: self.to.stack(&[&a.o], false)?,
            q_norm,
            k_norm,
            head_dim: a.head_dim,
            group,
            window: a.window,
            params,
        })
    }
}
