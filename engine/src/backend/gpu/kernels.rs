//! The pipelines that a plan needs, all compiled at load.

use super::device::{Gpu, Pipeline};
use crate::backend::PAGE_TOKENS;
use crate::error::{Error, Result};
use crate::model::plan::{Activation, Mixer, Plan, RopeStyle};
use lean_shaders as shaders;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

/// Compiled kernels.
pub struct Kernels {
    pub embed: Arc<Pipeline>,
    pub rms_norm: Arc<Pipeline>,
    pub add: Arc<Pipeline>,
    pub argmax: Arc<Pipeline>,
    pub kv_append: Arc<Pipeline>,
    pub short_conv: Arc<Pipeline>,
    matmul: [Arc<Pipeline>; 2],
    gate: [Arc<Pipeline>; 2],
    rope: [Arc<Pipeline>; 2],
    attention: HashMap<usize, Arc<Pipeline>>,
}

impl Kernels {
    /// Compiles them.
    pub fn compile(gpu: &Gpu, plan: &Plan) -> Result<Self> {
        let page = PAGE_TOKENS.to_string();
        let page = ("PAGE_TOKENS", page.as_str());
        let mut attention = HashMap::new();
        for layer in &plan.layers {
            if let Mixer::Attention(a) = &layer.mixer {
                if let Entry::Vacant(place) = attention.entry(a.head_dim) {
                    let constants = [page, ("HEAD_DIM", &a.head_dim.to_string())];
                    place.insert(gpu.pipeline(&shaders::ATTENTION, &constants)?);
                }
            }
        }
        let two = |kernel, name, values: [&str; 2]| -> Result<_> {
            Ok([gpu.pipeline(kernel, &[(name, values[0])])?, gpu.pipeline(kernel, &[(name, values[1])])?])
        };
        Ok(Kernels {
            embed: gpu.pipeline(&shaders::EMBED, &[])?,
            rms_norm: gpu.pipeline(&shaders::RMS_NORM, &[])?,
            add: gpu.pipeline(&shaders::ADD, &[])?,
            argmax: gpu.pipeline(&shaders::ARGMAX, &[])?,
            kv_append: gpu.pipeline(&shaders::KV_APPEND, &[page])?,
            short_conv: gpu.pipeline(&shaders::SHORT_CONV, &[page])?,
            matmul: two(&shaders::MATMUL, "TILE", ["1", "4"])?,
            gate: two(&shaders::GATE, "GELU", ["false", "true"])?,
            rope: two(&shaders::ROPE, "HALVES", ["false", "true"])?,
            attention,
        })
    }

    /// The product for a number of tokens, and how many of them an invocation takes.
    pub fn matmul(&self, tokens: usize) -> (&Arc<Pipeline>, usize) {
        match tokens {
            1 => (&self.matmul[0], 1),
            _ => (&self.matmul[1], 4),
        }
    }

    /// The gate with an activation.
    pub fn gate(&self, activation: Activation) -> &Arc<Pipeline> {
        &self.gate[usize::from(activation == Activation::GeluTanh)]
    }

    /// The rotation with a pairing.
    pub fn rope(&self, style: RopeStyle) -> &Arc<Pipeline> {
        &self.rope[usize::from(style == RopeStyle::Halves)]
    }

    /// Attention with a head size.
    pub fn attention(&self, head_dim: usize) -> Result<&Arc<Pipeline>> {
        let missing = || Error::Internal(format!("attention of head size {head_dim} was not compiled"));
        self.attention.get(&head_dim).ok_or_else(missing)
    }
}
