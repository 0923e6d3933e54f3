//! A plan executed by its definitions, in float64, one position after the other: the backend must agree.

use super::model::*;
use crate::backend::*;
use crate::model::plan::*;

type Row = Vec<f64>;

struct Naive<'a> {
    model: &'a Model,
}

impl Naive<'_> {
    fn values(&self, id: TensorId) -> Row {
        self.model.values(id).into_iter().map(f64::from).collect()
    }

    fn linear(&self, l: &Linear, x: &Row) -> Row {
        let bias = l.bias.map(|b| self.values(b));
        let product = |(r, w): (usize, &[f64])| {
            w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias.as_ref().map_or(0.0, |b| b[r])
        };
        self.values(l.weight).chunks(x.len()).enumerate().map(product).collect()
    }

    fn norm(&self, n: &Norm, x: &[f64]) -> Row {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let factor = 1.0 / (mean + f64::from(n.eps)).sqrt();
        self.values(n.weight).iter().zip(x).map(|(w, x)| x * factor * w).collect()
    }

    fn heads(&self, x: Row, d: usize, norm: &Option<Norm>, rope: &Rope, position: usize) -> Vec<Row> {
        let mut heads: Vec<Row> =
            x.chunks(d).map(|h| norm.as_ref().map_or(h.to_vec(), |n| self.norm(n, h))).collect();
        for head in &mut heads {
            for (i, f) in rope.inv_freq.iter().enumerate() {
                let (a, b) = match rope.style {
                    RopeStyle::Adjacent => (2 * i, 2 * i + 1),
                    RopeStyle::Halves => (i, i + rope.inv_freq.len()),
                };
                let (sin, cos) = f64::from(position as f32 * f).sin_cos();
                (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[b] * cos + head[a] * sin);
            }
        }
        heads
    }

    fn attention(&self, a: &Attention, rows: &[Row]) -> Vec<Row> {
        let d = a.head_dim;
        let project = |l: &Linear, norm: &Option<Norm>| -> Vec<Vec<Row>> {
            rows.iter().enumerate().map(|(p, x)| self.heads(self.linear(l, x), d, norm, &a.rope, p)).collect()
        };
        let (q, k) = (project(&a.q, &a.q_norm), project(&a.k, &a.k_norm));
        let v: Vec<Row> = rows.iter().map(|x| self.linear(&a.v, x)).collect();
        let mix = |(p, q): (usize, &Vec<Row>)| {
            let from = a.window.map_or(0, |w| (p + 1).saturating_sub(w));
            let mut out = Vec::new();
            for (h, q) in q.iter().enumerate() {
                let kv = h / (a.n_heads / a.n_kv_heads);
                let score =
                    |t: usize| q.iter().zip(&k[t][kv]).map(|(a, b)| a * b).sum::<f64>() * f64::from(a.scale);
                let weights: Row = (from..=p).map(|t| score(t).exp()).collect();
                let sum: f64 = weights.iter().sum();
                out.extend((0..d).map(|i| {
                    weights.iter().zip(from..).map(|(w, t)| w * v[t][kv * d + i]).sum::<f64>() / sum
                }));
            }
            self.linear(&a.o, &out)
        };
        q.iter().enumerate().map(mix).collect()
    }

    fn short_conv(&self, c: &ShortConv, rows: &[Row]) -> Vec<Row> {
        let kernel = self.values(c.kernel);
        let bcx: Vec<Row> = rows.iter().map(|x| self.linear(&c.in_proj, x)).collect();
        let u = |t: usize, i: usize| bcx[t][i] * bcx[t][2 * c.channels + i];
        let one = |t: usize| {
            let y = |i: usize| {
                let taps = (0..c.taps).filter(|j| t + j + 1 >= c.taps);
                bcx[t][c.channels + i]
                    * taps.map(|j| kernel[i * c.taps + j] * u(t + j + 1 - c.taps, i)).sum::<f64>()
            };
            self.linear(&c.out_proj, &(0..c.channels).map(y).collect())
        };
        (0..rows.len()).map(one).collect()
    }

    fn ffn(&self, f: &FeedForward, x: &Row) -> Row {
        let act = |x: f64| match f.activation {
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::GeluTanh => {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
            }
        };
        let (gate, up) = (self.linear(&f.gate, x), self.linear(&f.up, x));
        self.linear(&f.down, &gate.iter().zip(&up).map(|(g, u)| act(*g) * u).collect())
    }

    fn add(&self, h: &mut Row, x: Row, post: &Option<Norm>) {
        let x = post.as_ref().map_or_else(|| x.clone(), |n| self.norm(n, &x));
        h.iter_mut().zip(x).for_each(|(h, x)| *h += x);
    }

    fn logits(&self, tokens: &[u32]) -> Row {
        let plan = &self.model.plan;
        let table = self.values(plan.embedding);
        let embed = |&id: &u32| {
            let row = &table[id as usize * plan.hidden..(id as usize + 1) * plan.hidden];
            row.iter().map(|x| x * f64::from(plan.embedding_scale)).collect()
        };
        let mut rows: Vec<Row> = tokens.iter().map(embed).collect();
        for layer in &plan.layers {
            let normed: Vec<Row> = rows.iter().map(|h| self.norm(&layer.mixer_norm, h)).collect();
            let mixed = match &layer.mixer {
                Mixer::Attention(a) => self.attention(a, &normed),
                Mixer::ShortConv(c) => self.short_conv(c, &normed),
            };
            for (h, x) in rows.iter_mut().zip(mixed) {
                self.add(h, x, &layer.mixer_post_norm);
                let x = self.ffn(&layer.ffn, &self.norm(&layer.ffn_norm, h));
                self.add(h, x, &layer.ffn_post_norm);
            }
        }
        let head = Linear { weight: plan.head, bias: None };
        rows.iter().flat_map(|h| self.linear(&head, &self.norm(&plan.final_norm, h))).collect()
    }
}

#[test]
fn the_backend_computes_what_a_plan_says() {
    for (i, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let tokens = ids(&mut Random(9), 75);
        let want = Naive { model: &model }.logits(&tokens);
        let size = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        for portable in [false, true] {
            let backend = model.load(2, portable);
            let state = backend.new_state().unwrap();
            let got = run(&backend, state, &tokens);
            let worst = got.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).abs()).fold(0.0, f64::max);
            assert!(
                worst < 2e-5 * size.max(1.0),
                "recipe {i}, portable {portable}: {worst} off, logits up to {size}"
            );
        }
    }
}
