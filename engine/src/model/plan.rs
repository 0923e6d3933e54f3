//! The layer plan: what a backend executes, free of any architecture's name.
//!
//! An architecture (one small file beside this one) reads a GGUF's metadata and tensor table and produces
//! a [`Plan`]; backends execute plans and nothing else. All activations are row-major `[token][channel]`.

use crate::quant::DType;
pub use lean_kernels::ffn::Activation;
pub use lean_kernels::rope::RopeStyle;
use std::sync::Arc;

/// Index into [`Plan::tensors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// A weight as the plan needs it. `rows x cols`: `rows` outputs, `cols` contiguous inputs (GGUF `ne[0]`).
/// One-dimensional tensors have `rows == 1`.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// Name in the model file.
    pub name: String,
    /// Storage type in the model file.
    pub dtype: DType,
    /// Number of output rows.
    pub rows: usize,
    /// Number of contiguous elements in a row.
    pub cols: usize,
}

impl TensorSpec {
    /// Bytes of the tensor in the model file.
    pub fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.cols as u64) / self.dtype.block_elems() as u64
            * self.dtype.block_bytes() as u64
    }
}

/// `y = x * rsqrt(mean(x^2) + eps) * w` (RMSNorm, arXiv:1910.07467); statistics over the last dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Norm {
    /// `[1][n]`, float32.
    pub weight: TensorId,
    /// Added to the mean square.
    pub eps: f32,
}

/// `y = W x (+ b)`, `W: [n_out][n_in]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[n_out][n_in]`.
    pub weight: TensorId,
    /// `[1][n_out]`, float32.
    pub bias: Option<TensorId>,
}

/// Rotary position embedding (arXiv:2104.09864): the pair `i` of position `p` turns by `p * inv_freq[i]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Pairing.
    pub style: RopeStyle,
    /// Inverse frequencies, `[rotary / 2]`, scaling already applied.
    pub inv_freq: Arc<[f32]>,
}

/// Grouped-query attention over a causal KV state.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// `[n_heads * head_dim][hidden]`.
    pub q: Linear,
    /// `[n_kv_heads * head_dim][hidden]`.
    pub k: Linear,
    /// `[n_kv_heads * head_dim][hidden]`.
    pub v: Linear,
    /// `[hidden][n_heads * head_dim]`.
    pub o: Linear,
    /// Per-head norm of q before RoPE, `[head_dim]`.
    pub q_norm: Option<Norm>,
    /// Per-head norm of k before RoPE, `[head_dim]`.
    pub k_norm: Option<Norm>,
    /// Query heads; a multiple of `n_kv_heads`.
    pub n_heads: usize,
    /// Key/value heads; query head `h` reads kv head `h / (n_heads / n_kv_heads)`.
    pub n_kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Position embedding of q and k.
    pub rope: Rope,
    /// Factor of the scores before the softmax, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Sliding window: position `p` sees `p - window < t <= p`; `None` sees all.
    pub window: Option<usize>,
}

/// Gated short convolution (LFM2): `[B | C | x] = in_proj(h)`, `u = B * x`,
/// `y[t] = C[t] * sum_j kernel[j] * u[t - (taps - 1) + j]`, result `out_proj(y)`.
/// The state is the last `taps - 1` rows of `u`.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConv {
    /// `[3 * channels][hidden]`.
    pub in_proj: Linear,
    /// `[channels][taps]`, float32; column `taps - 1` multiplies the current token.
    pub kernel: TensorId,
    /// `[hidden][channels]`.
    pub out_proj: Linear,
    /// Number of channels.
    pub channels: usize,
    /// Kernel length.
    pub taps: usize,
}

/// How a layer mixes positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Mixer {
    /// Attention with a KV state.
    Attention(Attention),
    /// Short convolution with a rolling window.
    ShortConv(ShortConv),
}

/// Gated feed-forward: `down(act(gate(x)) * up(x))` (arXiv:2002.05202).
#[derive(Debug, Clone, PartialEq)]
pub struct FeedForward {
    /// `[n_ff][hidden]`.
    pub gate: Linear,
    /// `[n_ff][hidden]`.
    pub up: Linear,
    /// `[hidden][n_ff]`.
    pub down: Linear,
    /// Activation of the gate.
    pub activation: Activation,
}

/// One block: `h += post(mixer(norm(h)))`, then `h += post(ffn(norm(h)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Before the mixer.
    pub mixer_norm: Norm,
    /// Attention or convolution.
    pub mixer: Mixer,
    /// On the mixer's output, before the residual sum (gemma3).
    pub mixer_post_norm: Option<Norm>,
    /// Before the feed-forward.
    pub ffn_norm: Norm,
    /// The feed-forward.
    pub ffn: FeedForward,
    /// On the feed-forward's output, before the residual sum (gemma3).
    pub ffn_post_norm: Option<Norm>,
}

/// Everything a backend needs to know about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Weights in the order in which they are read.
    pub tensors: Vec<TensorSpec>,
    /// Rows of the embedding and of the head.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Positions that the model was made for.
    pub context_length: usize,
    /// `[vocab][hidden]`.
    pub embedding: TensorId,
    /// Factor of the embedding (gemma3: sqrt(hidden)), otherwise 1.
    pub embedding_scale: f32,
    /// The blocks, first to last.
    pub layers: Vec<Layer>,
    /// Before the head.
    pub final_norm: Norm,
    /// `[vocab][hidden]`; equal to `embedding` when tied.
    pub head: TensorId,
}

impl Plan {
    /// The spec of a tensor of this plan.
    pub fn tensor(&self, id: TensorId) -> &TensorSpec {
        &self.tensors[id.0]
    }
}
