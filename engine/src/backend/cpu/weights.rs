//! A plan bound to its weights.

use super::matrix::{to_f32, Matrix};
use super::memory::Arena;
use super::pool::Pool;
use crate::backend::{Progress, Updates, WeightSource};
use crate::error::{Error, Result};
use crate::model::plan::{self, Mixer as PlanMixer, Plan, RopeStyle, TensorId};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) struct Norm {
    pub(crate) weight: Arc<[f32]>,
    pub(crate) eps: f32,
}

pub(crate) struct Linear {
    /// What updates know the matrix by; none of the head.
    pub(crate) id: Option<TensorId>,
    pub(crate) weight: Arc<Matrix>,
    pub(crate) bias: Option<Arc<[f32]>>,
}

pub(crate) struct Attention {
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    pub(crate) o: Linear,
    pub(crate) q_norm: Option<Norm>,
    pub(crate) k_norm: Option<Norm>,
    pub(crate) n_heads: usize,
    pub(crate) n_kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rope_style: RopeStyle,
    /// Index into [`Weights::ropes`].
    pub(crate) rope: usize,
    pub(crate) scale: f32,
    pub(crate) window: Option<usize>,
}

pub(crate) struct ShortConv {
    pub(crate) in_proj: Linear,
    /// `[taps][channels]`: transposed, so that channels are contiguous.
    pub(crate) kernel: Vec<f32>,
    pub(crate) out_proj: Linear,
    pub(crate) taps: usize,
}

pub(crate) enum Mixer {
    Attention(Attention),
    ShortConv(ShortConv),
}

pub(crate) struct FeedForward {
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) activation: plan::Activation,
}

pub(crate) struct Layer {
    pub(crate) mixer_norm: Norm,
    pub(crate) mixer: Mixer,
    pub(crate) mixer_post_norm: Option<Norm>,
    pub(crate) ffn_norm: Norm,
    pub(crate) ffn: FeedForward,
    pub(crate) ffn_post_norm: Option<Norm>,
}

pub(crate) struct Weights {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    pub(crate) embedding: Arc<Matrix>,
    pub(crate) embedding_scale: f32,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_norm: Norm,
    /// The same as `embedding` when tied.
    pub(crate) head: Arc<Matrix>,
    /// The different tables of inverse frequencies.
    pub(crate) ropes: Vec<Arc<[f32]>>,
    /// Bytes of all weights.
    pub(crate) bytes: u64,
}

impl Weights {
    /// Reads every tensor of a plan, in the plan's order, and checks that the shapes fit together: the kernels
    /// rely on them.
    pub(crate) fn load(
        plan: &Plan,
        source: &mut dyn WeightSource,
        pool: &mut Pool,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let tensors = Tensors::read(plan, source, pool, progress)?;
        let mut binder = Binder { plan, tensors: &tensors, ropes: Vec::new() };
        positive("vocab", plan.vocab)?;
        positive("hidden", plan.hidden)?;
        let layers = plan.layers.iter().map(|l| binder.layer(l)).collect::<Result<_>>()?;
        Ok(Weights {
            vocab: plan.vocab,
            hidden: plan.hidden,
            embedding: binder.matrix(plan.embedding, plan.vocab, plan.hidden)?,
            embedding_scale: plan.embedding_scale,
            layers,
            final_norm: binder.norm(&plan.final_norm, plan.hidden)?,
            head: binder.matrix(plan.head, plan.vocab, plan.hidden)?,
            ropes: binder.ropes,
            bytes: tensors.bytes,
        })
    }
}

impl Weights {
    /// Every linear map of the layers.
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.layers.iter().flat_map(|layer| {
            let ffn = &layer.ffn;
            let mixer: Vec<&Linear> = match &layer.mixer {
                Mixer::Attention(a) => vec![&a.q, &a.k, &a.v, &a.o],
                Mixer::ShortConv(c) => vec![&c.in_proj, &c.out_proj],
            };
            mixer.into_iter().chain([&ffn.gate, &ffn.up, &ffn.down])
        })
    }

    /// Checks that every update is of a matrix of the layers and of its size: the kernels rely on it.
    pub(crate) fn check_updates(&self, updates: &Updates) -> Result<()> {
        for (id, update) in updates.0.iter().flat_map(|(set, _)| set.iter()) {
            let weight = self.linears().find(|l| l.id == Some(*id)).map(|l| &l.weight);
            if weight.is_none_or(|w| (w.rows, w.cols) != (update.rows(), update.cols())) {
                let reason =
                    format!("tensor {} of the layers is not {} x {}", id.0, update.rows(), update.cols());
                return Err(Error::invalid("low-rank update", reason));
            }
        }
        Ok(())
    }

    /// Where the angles of table `rope` for token `t` of `n` lie in a pass's buffer of them.
    pub(crate) fn angles_at(&self, rope: usize, n: usize, t: usize) -> usize {
        let before: usize = self.ropes[..rope].iter().map(|r| 2 * r.len()).sum();
        before * n + t * 2 * self.ropes[rope].len()
    }
}

/// What is held of a tensor.
enum Held {
    Matrix(Arc<Matrix>),
    Vector(Arc<[f32]>),
}

struct Tensors {
    held: Vec<Held>,
    bytes: u64,
}

impl Tensors {
    fn read(
        plan: &Plan,
        source: &mut dyn WeightSource,
        pool: &mut Pool,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let vectors = vectors(plan);
        let total: u64 = plan.tensors.iter().map(plan::TensorSpec::bytes).fold(0, u64::saturating_add);
        let (mut held, mut done, mut bytes) = (Vec::new(), 0, 0u64);
        // What vectors are unpacked from is given back at the end.
        let (mut arena, mut passing) = (Arena::default(), Arena::default());
        progress(0, total)?;
        for (i, spec) in plan.tensors.iter().enumerate() {
            let data = source.read(spec)?;
            held.push(if vectors.contains(&TensorId(i)) {
                let v = to_f32(spec, &data, &mut passing, pool)?;
                bytes += v.len() as u64 * 4;
                Held::Vector(v.into())
            } else {
                let m = Matrix::new(spec, &data, &mut arena, pool)?;
                bytes += m.bytes() as u64;
                Held::Matrix(Arc::new(m))
            });
            done += spec.bytes();
            progress(done, total)?;
        }
        Ok(Tensors { held, bytes })
    }
}

/// The tensors that are used as plain numbers: norms, biases, convolution kernels.
fn vectors(plan: &Plan) -> HashSet<TensorId> {
    let mut set = HashSet::from([plan.final_norm.weight]);
    let linear = |set: &mut HashSet<TensorId>, l: &plan::Linear| set.extend(l.bias);
    for layer in &plan.layers {
        set.extend([layer.mixer_norm.weight, layer.ffn_norm.weight]);
        set.extend(layer.mixer_post_norm.iter().chain(&layer.ffn_post_norm).map(|n| n.weight));
        for l in [&layer.ffn.gate, &layer.ffn.up, &layer.ffn.down] {
            linear(&mut set, l);
        }
        match &layer.mixer {
            PlanMixer::Attention(a) => {
                set.extend(a.q_norm.iter().chain(&a.k_norm).map(|n| n.weight));
                for l in [&a.q, &a.k, &a.v, &a.o] {
                    linear(&mut set, l);
                }
            }
            PlanMixer::ShortConv(c) => {
                set.insert(c.kernel);
                for l in [&c.in_proj, &c.out_proj] {
                    linear(&mut set, l);
                }
            }
        }
    }
    set
}

fn positive(what: &str, n: usize) -> Result<()> {
    if n == 0 {
        return Err(Error::bad_model(what, "is 0"));
    }
    Ok(())
}

struct Binder<'a> {
    plan: &'a Plan,
    tensors: &'a Tensors,
    ropes: Vec<Arc<[f32]>>,
}

impl Binder<'_> {
    fn held(&self, id: TensorId, rows: usize, cols: usize) -> Result<&Held> {
        let (Some(held), Some(spec)) = (self.tensors.held.get(id.0), self.plan.tensors.get(id.0)) else {
            return Err(Error::Internal(format!("the plan has no tensor {}", id.0)));
        };
        if (spec.rows, spec.cols) != (rows, cols) {
            return Err(Error::bad_model(
                &spec.name,
                format!("is {} x {}, not {rows} x {cols}", spec.rows, spec.cols),
            ));
        }
        Ok(held)
    }

    fn matrix(&self, id: TensorId, rows: usize, cols: usize) -> Result<Arc<Matrix>> {
        match self.held(id, rows, cols)? {
            Held::Matrix(m) => Ok(m.clone()),
            Held::Vector(_) => {
                Err(Error::Internal(format!("tensor {} is used as a matrix and as a vector", id.0)))
            }
        }
    }

    fn vector(&self, id: TensorId, rows: usize, cols: usize) -> Result<Arc<[f32]>> {
        match self.held(id, rows, cols)? {
            Held::Vector(v) => Ok(v.clone()),
            Held::Matrix(_) => {
                Err(Error::Internal(format!("tensor {} is used as a matrix and as a vector", id.0)))
            }
        }
    }

    fn norm(&self, norm: &plan::Norm, n: usize) -> Result<Norm> {
        Ok(Norm { weight: self.vector(norm.weight, 1, n)?, eps: norm.eps })
    }

    fn some_norm(&self, norm: &Option<plan::Norm>, n: usize) -> Result<Option<Norm>> {
        norm.as_ref().map(|norm| self.norm(norm, n)).transpose()
    }

    fn linear(&self, linear: &plan::Linear, n_out: usize, n_in: usize) -> Result<Linear> {
        Ok(Linear {
            id: Some(linear.weight),
            weight: self.matrix(linear.weight, n_out, n_in)?,
            bias: linear.bias.map(|b| self.vector(b, 1, n_out)).transpose()?,
        })
    }

    fn layer(&mut self, layer: &plan::Layer) -> Result<Layer> {
        let hidden = self.plan.hidden;
        let mixer = match &layer.mixer {
            PlanMixer::Attention(a) => Mixer::Attention(self.attention(a)?),
            PlanMixer::ShortConv(c) => Mixer::ShortConv(self.short_conv(c)?),
        };
        let n_ff = self.plan.tensors.get(layer.ffn.gate.weight.0).map_or(0, |t| t.rows);
        positive("feed_forward_length", n_ff)?;
        Ok(Layer {
            mixer_norm: self.norm(&layer.mixer_norm, hidden)?,
            mixer,
            mixer_post_norm: self.some_norm(&layer.mixer_post_norm, hidden)?,
            ffn_norm: self.norm(&layer.ffn_norm, hidden)?,
            ffn: FeedForward {
                gate: self.linear(&layer.ffn.gate, n_ff, hidden)?,
                up: self.linear(&layer.ffn.up, n_ff, hidden)?,
                down: self.linear(&layer.ffn.down, hidden, n_ff)?,
                activation: layer.ffn.activation,
            },
            ffn_post_norm: self.some_norm(&layer.ffn_post_norm, hidden)?,
        })
    }

    fn attention(&mut self, a: &plan::Attention) -> Result<Attention> {
        let hidden = self.plan.hidden;
        positive("head_dim", a.head_dim)?;
        positive("head_count_kv", a.n_kv_heads)?;
        positive("window", a.window.unwrap_or(1))?;
        if a.n_heads == 0 || !a.n_heads.is_multiple_of(a.n_kv_heads) {
            return Err(Error::bad_model(
                "head_count",
                format!("{} heads share {} kv heads", a.n_heads, a.n_kv_heads),
            ));
        }
        if a.rope.inv_freq.len() > a.head_dim / 2 {
            return Err(Error::bad_model(
                "rope",
                format!("{} pairs in {} elements", a.rope.inv_freq.len(), a.head_dim),
            ));
        }
        let (Some(q), Some(kv)) = (a.n_heads.checked_mul(a.head_dim), a.n_kv_heads.checked_mul(a.head_dim))
        else {
            return Err(Error::bad_model("head_count", "overflows"));
        };
        Ok(Attention {
            q: self.linear(&a.q, q, hidden)?,
            k: self.linear(&a.k, kv, hidden)?,
            v: self.linear(&a.v, kv, hidden)?,
            o: self.linear(&a.o, hidden, q)?,
            q_norm: self.some_norm(&a.q_norm, a.head_dim)?,
            k_norm: self.some_norm(&a.k_norm, a.head_dim)?,
            n_heads: a.n_heads,
            n_kv_heads: a.n_kv_heads,
            head_dim: a.head_dim,
            rope_style: a.rope.style,
            rope: self.rope(&a.rope.inv_freq),
            scale: a.scale,
            window: a.window,
        })
    }

    fn rope(&mut self, inv_freq: &Arc<[f32]>) -> usize {
        self.ropes.iter().position(|r| r == inv_freq).unwrap_or_else(|| {
            self.ropes.push(inv_freq.clone());
            self.ropes.len() - 1
        })
    }

    fn short_conv(&self, c: &plan::ShortConv) -> Result<ShortConv> {
        let hidden = self.plan.hidden;
        positive("conv channels", c.channels)?;
        positive("conv taps", c.taps)?;
        let Some(wide) = c.channels.checked_mul(3) else {
            return Err(Error::bad_model("conv channels", "overflow"));
        };
        let kernel = self.vector(c.kernel, c.channels, c.taps)?;
        Ok(ShortConv {
            in_proj: self.linear(&c.in_proj, wide, hidden)?,
            kernel: (0..c.taps).flat_map(|j| kernel.iter().skip(j).step_by(c.taps).copied()).collect(),
            out_proj: self.linear(&c.out_proj, hidden, c.channels)?,
            taps: c.taps,
        })
    }
}
