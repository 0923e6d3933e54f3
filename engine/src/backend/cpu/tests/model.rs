//! Small random models and helpers to run them.

use crate::backend::cpu::{CpuBackend, CpuOptions};
use crate::backend::*;
use crate::error::Result;
use crate::model::plan::*;
use crate::quant::DType;
pub(super) use lean_kernels::forge::{random_row, Random};
use std::borrow::Cow;

/// A plan and its weights' bytes.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) plan: Plan,
    pub(super) bytes: Vec<Vec<u8>>,
}

impl WeightSource for &Model {
    fn read(&mut self, spec: &TensorSpec) -> Result<Cow<'_, [u8]>> {
        let i = self.plan.tensors.iter().position(|t| t.name == spec.name).unwrap();
        Ok(Cow::Borrowed(&self.bytes[i]))
    }
}

impl Model {
    pub(super) fn load(&self, threads: usize, portable: bool) -> CpuBackend {
        let mut source = self;
        CpuBackend::load(
            self.plan.clone(),
            &mut source,
            &CpuOptions { threads, portable, ..Default::default() },
            &mut |_, _| Ok(()),
        )
        .unwrap()
    }

    pub(super) fn values(&self, id: TensorId) -> Vec<f32> {
        let spec = self.plan.tensor(id);
        let mut out = vec![0.0; spec.rows * spec.cols];
        crate::quant::dequantize_row(spec.dtype, &self.bytes[id.0], &mut out).unwrap();
        out
    }
}

struct Builder {
    random: Random,
    model: Model,
    dtypes: Vec<DType>,
}

impl Builder {
    fn tensor(&mut self, dtype: DType, rows: usize, cols: usize) -> TensorId {
        let name = format!("t{}", self.model.plan.tensors.len());
        let bytes = (0..rows).flat_map(|_| random_row(&mut self.random, dtype, cols)).collect();
        self.model.plan.tensors.push(TensorSpec { name, dtype, rows, cols });
        self.model.bytes.push(bytes);
        TensorId(self.model.bytes.len() - 1)
    }

    fn linear(&mut self, rows: usize, cols: usize, bias: bool) -> Linear {
        let fits: Vec<DType> = self.dtypes.iter().copied().filter(|d| cols % d.block_elems() == 0).collect();
        let dtype = fits[self.random.below(fits.len())];
        let weight = self.tensor(dtype, rows, cols);
        Linear { weight, bias: bias.then(|| self.tensor(DType::F32, 1, rows)) }
    }

    /// A norm whose weights are around 1.
    fn norm(&mut self, n: usize) -> Norm {
        let weight = self.tensor(DType::F32, 1, n);
        for x in self.model.bytes[weight.0].chunks_exact_mut(4) {
            let v = 1.0 + f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
            x.copy_from_slice(&v.to_le_bytes());
        }
        Norm { weight, eps: 1e-5 }
    }
}

/// What a test model has.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) seed: u64,
    pub(super) hidden: usize,
    pub(super) ffn: usize,
    pub(super) head_dim: usize,
    pub(super) heads: (usize, usize),
    /// One letter a layer: `a`ttention, `w`indowed attention, `c`onvolution.
    pub(super) layers: &'static str,
    /// Biases, q/k norms, post norms, tanh-GELU, scaled embedding, adjacent pairs, untied head.
    pub(super) extras: bool,
    pub(super) dtypes: Vec<DType>,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe {
            seed: 1,
            hidden: 64,
            ffn: 96,
            head_dim: 16,
            heads: (4, 2),
            layers: "aa",
            extras: false,
            dtypes: vec![DType::F32, DType::Q8_0, DType::Q4_1],
        }
    }
}

pub(super) const WINDOW: usize = 40;
pub(super) const VOCAB: usize = 101;

impl Recipe {
    pub(super) fn build(&self) -> Model {
        let placeholder = Norm { weight: TensorId(0), eps: 1e-5 };
        let plan = Plan {
            tensors: Vec::new(),
            vocab: VOCAB,
            hidden: self.hidden,
            context_length: 4096,
            embedding: TensorId(0),
            embedding_scale: if self.extras { 1.7 } else { 1.0 },
            layers: Vec::new(),
            final_norm: placeholder,
            head: TensorId(0),
        };
        let mut b = Builder {
            random: Random(self.seed * 2 + 1),
            model: Model { plan, bytes: Vec::new() },
            dtypes: self.dtypes.clone(),
        };
        let embedding = b.linear(VOCAB, self.hidden, false).weight;
        let head = if self.extras { b.linear(VOCAB, self.hidden, false).weight } else { embedding };
        let layers = self.layers.chars().map(|kind| self.layer(&mut b, kind)).collect();
        let final_norm = b.norm(self.hidden);
        let plan = &mut b.model.plan;
        (plan.embedding, plan.head, plan.layers, plan.final_norm) = (embedding, head, layers, final_norm);
        b.model
    }

    fn layer(&self, b: &mut Builder, kind: char) -> Layer {
        let (hidden, x) = (self.hidden, self.extras);
        let mixer_norm = b.norm(hidden);
        let mixer = match kind {
            'c' => Mixer::ShortConv(ShortConv {
                in_proj: b.linear(3 * hidden, hidden, false),
                kernel: b.tensor(DType::F32, hidden, 3),
                out_proj: b.linear(hidden, hidden, false),
                channels: hidden,
                taps: 3,
            }),
            _ => Mixer::Attention(self.attention(b, (kind == 'w').then_some(WINDOW))),
        };
        Layer {
            mixer_norm,
            mixer,
            mixer_post_norm: x.then(|| b.norm(hidden)),
            ffn_norm: b.norm(hidden),
            ffn: FeedForward {
                gate: b.linear(self.ffn, hidden, x),
                up: b.linear(self.ffn, hidden, false),
                down: b.linear(hidden, self.ffn, x),
                activation: if x { Activation::GeluTanh } else { Activation::Silu },
            },
            ffn_post_norm: x.then(|| b.norm(hidden)),
        }
    }

    fn attention(&self, b: &mut Builder, window: Option<usize>) -> Attention {
        let (d, x) = (self.head_dim, self.extras);
        let (q, kv) = (self.heads.0 * d, self.heads.1 * d);
        // A part of the head stays unrotated where there are extras.
        let pairs = if x { d / 4 } else { d / 2 };
        // Windowed layers have frequencies of their own, as in gemma3.
        let base: f32 = if window.is_some() { 100.0 } else { 10_000.0 };
        Attention {
            q: b.linear(q, self.hidden, x),
            k: b.linear(kv, self.hidden, x),
            v: b.linear(kv, self.hidden, x),
            o: b.linear(self.hidden, q, false),
            q_norm: x.then(|| b.norm(d)),
            k_norm: x.then(|| b.norm(d)),
            n_heads: self.heads.0,
            n_kv_heads: self.heads.1,
            head_dim: d,
            rope: Rope {
                style: if x { RopeStyle::Adjacent } else { RopeStyle::Halves },
                inv_freq: (0..pairs).map(|i| base.powf(-(i as f32) / pairs as f32)).collect(),
            },
            scale: 1.0 / (d as f32).sqrt(),
            window,
        }
    }
}

/// Recipes that among them use everything a plan can say.
pub(super) fn recipes() -> Vec<Recipe> {
    use DType::*;
    vec![
        Recipe::default(),
        Recipe { seed: 2, layers: "awca", extras: true, ..Recipe::default() },
        Recipe { seed: 3, layers: "ccac", dtypes: vec![Q4_0, Q5_0, F16], ..Recipe::default() },
        // Nothing is a multiple of a vector or a unit.
        Recipe {
            seed: 4,
            hidden: 70,
            ffn: 53,
            head_dim: 14,
            layers: "awc",
            extras: true,
            heads: (3, 1),
            dtypes: vec![F32, F16, BF16],
        },
        Recipe {
            seed: 5,
            hidden: 256,
            ffn: 256,
            head_dim: 80,
            heads: (4, 2),
            dtypes: vec![Q4_K, Q5_K, Q6_K, Q5_1],
            ..Recipe::default()
        },
    ]
}

pub(super) fn slot(state: StateId, tokens: &[u32], logits: Logits) -> Slot {
    Slot { state, input: Input::Tokens(tokens.to_vec()), logits, cancel: Default::default() }
}

/// Runs tokens of one state and returns the logits of all of them.
pub(super) fn run(backend: &CpuBackend, state: StateId, tokens: &[u32]) -> Vec<f32> {
    let ticket = backend.submit(Batch { slots: vec![slot(state, tokens, Logits::All)] }).unwrap();
    logits(backend, ticket, 0)
}

pub(super) fn logits(backend: &CpuBackend, ticket: Ticket, slot: usize) -> Vec<f32> {
    match backend.poll(ticket, slot).unwrap() {
        Poll::Ready(output) => output.logits.unwrap(),
        Poll::Pending => panic!("the CPU's tickets are ready at once"),
    }
}

pub(super) fn ids(random: &mut Random, n: usize) -> Vec<u32> {
    (0..n).map(|_| random.below(VOCAB) as u32).collect()
}

/// Bits, so that equality means identity.
pub(super) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The logits' bits of sequences that run side by side, each pass taking a few tokens of each.
pub(super) fn together(
    backend: &CpuBackend,
    states: &[StateId],
    sequences: &[Vec<u32>],
    random: &mut Random,
) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = vec![Vec::new(); sequences.len()];
    let mut at = vec![0; sequences.len()];
    while (0..sequences.len()).any(|i| at[i] < sequences[i].len()) {
        let (mut slots, mut who) = (Vec::new(), Vec::new());
        for i in 0..sequences.len() {
            let n = (1 + random.below(12)).min(sequences[i].len() - at[i]);
            if n > 0 {
                slots.push(slot(states[i], &sequences[i][at[i]..at[i] + n], Logits::All));
                who.push(i);
                at[i] += n;
            }
        }
        let ticket = backend.submit(Batch { slots }).unwrap();
        for (s, &i) in who.iter().enumerate() {
            all[i].extend(bits(&logits(backend, ticket, s)));
        }
    }
    all
}
