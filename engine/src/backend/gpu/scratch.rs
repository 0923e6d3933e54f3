//! Buffers of a pass that nothing outlives it. Passes run in order, so they all use the same ones.

use super::device::Gpu;
use crate::error::Result;
use crate::model::plan::{Mixer, Plan};

/// A buffer that grows to what is asked of it; its content does not survive that.
#[derive(Debug, Default)]
pub struct Scratch {
    buffer: Option<wgpu::Buffer>,
}

impl Scratch {
    /// Room for at least `elems` 4-byte elements.
    pub fn fit(&mut self, gpu: &Gpu, what: &str, elems: usize) -> Result<wgpu::Buffer> {
        let bytes = (elems.max(1) * 4) as u64;
        match &self.buffer {
            Some(buffer) if buffer.size() >= bytes => Ok(buffer.clone()),
            _ => {
                let roomy = bytes.next_power_of_two().min(gpu.max_binding).max(bytes);
                let buffer = gpu.storage(what, roomy)?;
                self.buffer = Some(buffer.clone());
                Ok(buffer)
            }
        }
    }

    /// The same, filled with host data before the next submission.
    pub fn fill<T: bytemuck::Pod>(&mut self, gpu: &Gpu, what: &str, content: &[T]) -> Result<wgpu::Buffer> {
        let bytes: &[u8] = bytemuck::cast_slice(content);
        let buffer = self.fit(gpu, what, bytes.len() / 4)?;
        gpu.queue.write_buffer(&buffer, 0, bytes);
        Ok(buffer)
    }
}

/// Widths of the activations, in elements a token.
#[derive(Debug, Clone, Copy)]
pub struct Widths {
    pub hidden: usize,
    /// Queries, or a convolution's projections.
    pub mixer_in: usize,
    /// Keys and values.
    pub kv: usize,
    /// What a mixer hands to its last projection.
    pub mixer_out: usize,
    pub ff: usize,
}

impl Widths {
    /// The widest of each kind over all layers.
    pub fn of(plan: &Plan) -> Self {
        let mut w = Widths { hidden: plan.hidden, mixer_in: 0, kv: 0, mixer_out: 0, ff: 0 };
        for layer in &plan.layers {
            let (mixer_in, kv, mixer_out) = match &layer.mixer {
                Mixer::Attention(a) => {
                    (a.n_heads * a.head_dim, a.n_kv_heads * a.head_dim, a.n_heads * a.head_dim)
                }
                Mixer::ShortConv(c) => (3 * c.channels, 0, c.channels),
            };
            w.mixer_in = w.mixer_in.max(mixer_in);
            w.kv = w.kv.max(kv);
            w.mixer_out = w.mixer_out.max(mixer_out);
            w.ff = w.ff.max(plan.tensor(layer.ffn.gate.weight).rows);
        }
        w
    }

    /// The widest of all.
    pub fn most(&self) -> usize {
        [self.hidden, self.mixer_in, self.kv, self.mixer_out, self.ff].into_iter().max().unwrap_or(1).max(1)
    }
}

/// The activations of a pass.
pub struct Activations {
    /// Residual stream.
    pub h: wgpu::Buffer,
    /// Normed input of a block.
    pub normed: wgpu::Buffer,
    /// Queries or convolution projections, and a second one for normed queries.
    pub q: [wgpu::Buffer; 2],
    /// Keys, and normed keys.
    pub k: [wgpu::Buffer; 2],
    pub v: wgpu::Buffer,
    /// Output of attention or convolution before its projection.
    pub mixed: wgpu::Buffer,
    /// A block's output, and its post-norm.
    pub out: [wgpu::Buffer; 2],
    pub gate: wgpu::Buffer,
    pub up: wgpu::Buffer,
}

/// Where [`Activations`] come from.
#[derive(Debug, Default)]
pub struct ActivationScratch([Scratch; 12]);

impl ActivationScratch {
    /// Buffers for `tokens` tokens.
    pub fn fit(&mut self, gpu: &Gpu, widths: &Widths, tokens: usize) -> Result<Activations> {
        let [h, normed, q, q2, k, k2, v, mixed, out, out2, gate, up] = &mut self.0;
        let of = |scratch: &mut Scratch, width: usize| scratch.fit(gpu, "activations", tokens * width);
        Ok(Activations {
            h: of(h, widths.hidden)?,
            normed: of(normed, widths.hidden)?,
            q: [of(q, widths.mixer_in)?, of(q2, widths.mixer_in)?],
            k: [of(k, widths.kv)?, of(k2, widths.kv)?],
            v: of(v, widths.kv)?,
            mixed: of(mixed, widths.mixer_out)?,
            out: [of(out, widths.hidden)?, of(out2, widths.hidden)?],
            gate: of(gate, widths.ff)?,
            up: of(up, widths.ff)?,
        })
    }
}
