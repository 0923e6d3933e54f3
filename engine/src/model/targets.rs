//! The matrices of a plan that an adapter may update.

use super::plan::{Linear, Mixer, Plan, RopeStyle, TensorId};
use indexmap::IndexMap;

/// A matrix of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// What the backend knows it by.
    pub tensor: TensorId,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Elements of a head, where the rows of each head lie in the model file so that adjacent pairs rotate, while
    /// Hugging Face's checkpoints of the same model have the two halves one after the other.
    pub interleaved: Option<usize>,
}

/// All of them, by the tensor's name in the model file.
pub type Targets = IndexMap<String, Target>;

/// The targets of a plan: the linear maps of its attentions, convolutions and feed-forwards.
pub fn targets(plan: &Plan) -> Targets {
    let mut all = Targets::new();
    let mut add = |linear: &Linear, interleaved: Option<usize>| {
        let spec = plan.tensor(linear.weight);
        let target = Target { tensor: linear.weight, rows: spec.rows, cols: spec.cols, interleaved };
        all.insert(spec.name.clone(), target);
    };
    for layer in &plan.layers {
        match &layer.mixer {
            Mixer::Attention(a) => {
                let interleaved = (a.rope.style == RopeStyle::Adjacent).then_some(a.head_dim);
                add(&a.q, interleaved);
                add(&a.k, interleaved);
                add(&a.v, None);
                add(&a.o, None);
            }
            Mixer::ShortConv(c) => {
                add(&c.in_proj, None);
                add(&c.out_proj, None);
            }
        }
        for linear in [&layer.ffn.gate, &layer.ffn.up, &layer.ffn.down] {
            add(linear, None);
        }
    }
    all
}
