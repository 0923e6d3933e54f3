//! Low-rank updates: as computed by hand into the weights, whoever shares the batch, however it is cut.

use super::model::*;
use crate::backend::cpu::CpuBackend;
use crate::backend::*;
use crate::model::plan::{Linear, Mixer, TensorId};
use crate::quant::DType;
use std::sync::Arc;

/// Every linear map of the layers.
fn linears(model: &Model) -> Vec<TensorId> {
    let mut all = Vec::new();
    let mut add = |l: &Linear| all.push(l.weight);
    for layer in &model.plan.layers {
        match &layer.mixer {
            Mixer::Attention(a) => [&a.q, &a.k, &a.v, &a.o].into_iter().for_each(&mut add),
            Mixer::ShortConv(c) => [&c.in_proj, &c.out_proj].into_iter().for_each(&mut add),
        }
        [&layer.ffn.gate, &layer.ffn.up, &layer.ffn.down].into_iter().for_each(&mut add);
    }
    all
}

/// Random updates of about two thirds of the matrices, ranks 1 to 9.
fn updates(model: &Model, seed: u64, scale: f32) -> Updates {
    let mut random = Random(seed * 2 + 1);
    let mut set = LowRankSet::new();
    for id in linears(model) {
        let spec = model.plan.tensor(id);
        let rank = 1 + random.below(9);
        let mut floats = |n: usize| (0..n).map(|_| random.float() * 0.3).collect::<Vec<f32>>();
        let (a, b) = (floats(rank * spec.cols), floats(rank * spec.rows));
        if random.below(3) > 0 {
            set.insert(id, LowRank::new(spec.rows, spec.cols, rank, 0.5, a, b).unwrap());
        }
    }
    Updates(Arc::new(vec![(Arc::new(set), scale)]))
}

/// The model with the updates added to its weights, which become float32.
fn merged(model: &Model, updates: &Updates) -> Model {
    let mut merged = model.clone();
    for (set, scale) in updates.0.iter() {
        for (id, u) in set.iter() {
            let mut w = merged.values(*id);
            for (r, row) in w.chunks_exact_mut(u.cols()).enumerate() {
                for (k, w) in row.iter_mut().enumerate() {
                    let sum: f64 = (0..u.rank())
                        .map(|j| f64::from(u.b()[j * u.rows() + r]) * f64::from(u.a()[j * u.cols() + k]))
                        .sum();
                    *w = (f64::from(*w) + f64::from(u.factor() * scale) * sum) as f32;
                }
            }
            merged.plan.tensors[id.0].dtype = DType::F32;
            merged.bytes[id.0] = w.iter().flat_map(|x| x.to_le_bytes()).collect();
        }
    }
    merged
}

fn state(backend: &CpuBackend, updates: &Updates) -> StateId {
    let state = backend.new_state().unwrap();
    backend.adapt(state, updates).unwrap();
    state
}

#[test]
fn updates_equal_merged_weights() {
    for (r, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let updates = updates(&model, 3, 0.7);
        let tokens = ids(&mut Random(5), 40);
        for portable in [false, true] {
            let want = {
                let backend = merged(&model, &updates).load(2, portable);
                let state = backend.new_state().unwrap();
                run(&backend, state, &tokens)
            };
            let backend = model.load(2, portable);
            let plain = run(&backend, backend.new_state().unwrap(), &tokens);
            let got = run(&backend, state(&backend, &updates), &tokens);
            let most = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(most(&got, &want) < 2e-3, "recipe {r}: {}", most(&got, &want));
            assert!(most(&plain, &want) > 0.05, "recipe {r}: the updates change too little");
        }
    }
}

#[test]
fn sequences_with_different_updates_share_a_batch() {
    for recipe in recipes() {
        let model = recipe.build();
        let backend = model.load(2, false);
        let mut random = Random(6);
        let kinds = [Updates::default(), updates(&model, 1, 1.0), updates(&model, 2, -0.5), {
            let both = [updates(&model, 1, 1.0), updates(&model, 2, 0.25)];
            Updates(Arc::new(both.iter().flat_map(|u| u.0.iter().cloned()).collect()))
        }];
        let sequences: Vec<Vec<u32>> = (0..4).map(|i| ids(&mut random, 20 + 13 * i)).collect();
        let apart: Vec<Vec<u32>> =
            sequences.iter().zip(&kinds).map(|(s, u)| bits(&run(&backend, state(&backend, u), s))).collect();
        let states: Vec<StateId> = kinds.iter().map(|u| state(&backend, u)).collect();
        assert!(together(&backend, &states, &sequences, &mut random) == apart);
        // A fork keeps the updates of its source.
        let source = state(&backend, &kinds[1]);
        run(&backend, source, &sequences[1][..10]);
        let fork = backend.fork(source).unwrap();
        let rest = bits(&run(&backend, fork, &sequences[1][10..]));
        assert!(rest == apart[1][10 * VOCAB..]);
    }
}

#[test]
fn updates_that_fit_no_matrix_are_refused() {
    let model = Recipe::default().build();
    let backend = model.load(1, false);
    let state = backend.new_state().unwrap();
    let q = linears(&model)[0];
    for (id, rows, cols) in [(q, 64, 63), (q, 63, 64), (model.plan.head, VOCAB, 64), (TensorId(9999), 64, 64)]
    {
        let update = LowRank::new(rows, cols, 1, 1.0, vec![0.0; cols], vec![0.0; rows]).unwrap();
        let updates = Updates(Arc::new(vec![(Arc::new(LowRankSet::from([(id, update)])), 1.0)]));
        assert!(backend.adapt(state, &updates).is_err(), "{id:?} {rows} x {cols}");
    }
    assert!(LowRank::new(4, 4, 0, 1.0, vec![], vec![]).is_err());
    assert!(LowRank::new(4, 4, 1, 1.0, vec![0.0; 4], vec![0.0; 5]).is_err());
    assert!(LowRank::new(usize::MAX, 4, 2, 1.0, vec![0.0; 8], vec![]).is_err());
}
