//! Buffers of a pass that nothing outlives it. Passes run in order, so they all use the same ones.

use super::device::Gpu;
use super::kernels::FEW;
use super::model::{Layer, Mixer};
use super::pack::GROUP;
use crate::error::Result;

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
    /// Queries, keys and values together, or a convolution's projections.
    pub mixer_in: usize,
    /// What a mixer hands to its last projection.
    pub mixer_out: usize,
    pub ff: usize,
    /// Gate and up, where they are not one matrix of pairs, and always.
    pub both: usize,
    pub gate_up: usize,
}

impl Widths {
    /// The widest of each kind over all layers.
    pub fn of(layers: &[Layer], hidden: usize) -> Self {
        let mut w = Widths { hidden, mixer_in: 0, mixer_out: 0, ff: 0, both: 0, gate_up: 0 };
        for layer in layers {
            let (mixer_in, mixer_out) = match &layer.mixer {
                Mixer::Attention(a) => (a.qkv.rows, a.o.cols),
                Mixer::ShortConv(c) => (c.in_proj.rows, c.out_proj.cols),
            };
            w.mixer_in = w.mixer_in.max(mixer_in);
            w.mixer_out = w.mixer_out.max(mixer_out);
            w.ff = w.ff.max(layer.down.cols);
            w.gate_up = w.gate_up.max(layer.gate_up.rows);
            if !layer.gate_up.paired {
                w.both = w.both.max(layer.gate_up.rows);
            }
        }
        w
    }

    /// The widest of all.
    pub fn most(&self) -> usize {
        [self.hidden, self.mixer_in, self.mixer_out, self.ff, self.gate_up]
            .into_iter()
            .max()
            .unwrap_or(1)
            .max(1)
    }
}

/// Words of a quantised group.
const QUANTISED: usize = 28;

/// The activations of a pass.
pub struct Activations {
    /// Residual stream.
    pub h: wgpu::Buffer,
    /// Normed input of a block.
    pub normed: wgpu::Buffer,
    /// Queries, keys, values; or convolution projections.
    pub mixer_in: wgpu::Buffer,
    /// Output of attention or convolution before its projection.
    pub mixed: wgpu::Buffer,
    /// A block's output before its post-norm.
    pub out: wgpu::Buffer,
    /// Gate and up.
    pub both: wgpu::Buffer,
    /// The feed-forward's input to its last projection.
    pub gated: wgpu::Buffer,
    /// Parts of decode attention.
    pub parts: wgpu::Buffer,
    /// Low-rank products of updates.
    pub low: wgpu::Buffer,
    /// Quantised input of a product with few tokens.
    pub quantised: wgpu::Buffer,
}

/// Where [`Activations`] come from.
#[derive(Debug, Default)]
pub struct ActivationScratch([Scratch; 10]);

impl ActivationScratch {
    /// Buffers for `tokens` tokens, and so many elements of parts of attention and of low-rank products.
    pub fn fit(
        &mut self,
        gpu: &Gpu,
        widths: &Widths,
        tokens: usize,
        [parts, low]: [usize; 2],
    ) -> Result<Activations> {
        let [h, normed, mixer_in, mixed, out, both, gated, of_parts, of_low, quantised] = &mut self.0;
        let of = |scratch: &mut Scratch, width: usize| scratch.fit(gpu, "activations", tokens * width);
        // The head takes any number of tokens, the layers FEW.
        let elems = (tokens * widths.hidden).max(tokens.min(FEW) * widths.most());
        Ok(Activations {
            quantised: quantised.fit(gpu, "quantised activations", elems / GROUP * QUANTISED)?,
            h: of(h, widths.hidden)?,
            normed: of(normed, widths.hidden)?,
            mixer_in: of(mixer_in, widths.mixer_in)?,
            mixed: of(mixed, widths.mixer_out)?,
            out: of(out, widths.hidden)?,
            both: of(both, widths.both)?,
            gated: of(gated, widths.ff)?,
            parts: of_parts.fit(gpu, "parts of attention", parts)?,
            low: of_low.fit(gpu, "low-rank products", low)?,
        })
    }
}
