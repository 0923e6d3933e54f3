//! Logits are the same bits however the work is cut.

use super::model::*;
use crate::backend::cpu::CpuBackend;
use crate::backend::*;

const TOKENS: usize = 90;

/// Logits of all tokens, run in chunks of the given sizes (repeated).
fn chunked(backend: &CpuBackend, tokens: &[u32], sizes: &[usize]) -> Vec<f32> {
    let state = backend.new_state().unwrap();
    let mut all = Vec::new();
    let (mut at, mut i) = (0, 0);
    while at < tokens.len() {
        let end = tokens.len().min(at + sizes[i % sizes.len()]);
        all.extend(run(backend, state, &tokens[at..end]));
        (at, i) = (end, i + 1);
    }
    backend.free_state(state);
    all
}

#[test]
fn whatever_the_chunks_and_threads() {
    for (r, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let tokens = ids(&mut Random(5), TOKENS);
        for portable in [false, true] {
            let want = bits(&chunked(&model.load(1, portable), &tokens, &[TOKENS]));
            for threads in [1, 2, 3] {
                let backend = model.load(threads, portable);
                for sizes in [&[1usize][..], &[2], &[3], &[4, 5], &[7, 1, 31], &[32], &[33], &[64, 2]] {
                    let got = bits(&chunked(&backend, &tokens, sizes));
                    assert!(
                        got == want,
                        "recipe {r}, portable {portable}, {threads} threads, chunks {sizes:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn whatever_threads_share_a_long_attention() {
    for (r, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let tokens = ids(&mut Random(15), 300);
        let want = bits(&chunked(&model.load(1, false), &tokens, &[300]));
        for threads in [2, 4] {
            let got = bits(&chunked(&model.load(threads, false), &tokens, &[270, 1, 1, 5]));
            assert!(got == want, "recipe {r}, {threads} threads");
        }
    }
}

#[test]
fn whatever_else_is_in_the_batch() {
    for recipe in recipes() {
        let model = recipe.build();
        let backend = model.load(2, false);
        let mut random = Random(6);
        let sequences: Vec<Vec<u32>> = (0..5).map(|i| ids(&mut random, 20 + 13 * i)).collect();
        let apart: Vec<Vec<u32>> = sequences.iter().map(|s| bits(&chunked(&backend, s, &[9]))).collect();
        let states: Vec<StateId> = sequences.iter().map(|_| backend.new_state().unwrap()).collect();
        assert!(together(&backend, &states, &sequences, &mut random) == apart);
    }
}

#[test]
fn last_logits_are_those_of_all() {
    let backend = Recipe::default().build().load(1, false);
    let tokens = ids(&mut Random(7), 12);
    let state = backend.new_state().unwrap();
    let all = run(&backend, state, &tokens);
    let state = backend.new_state().unwrap();
    let ticket =
        backend.submit(Batch { slots: vec![slot(state, &tokens, Logits::Last { read: true })] }).unwrap();
    assert_eq!(bits(&logits(&backend, ticket, 0)), bits(&all[11 * VOCAB..]));
}

#[test]
fn whatever_was_forked_cut_or_restored() {
    for recipe in recipes() {
        let model = recipe.build();
        let backend = model.load(2, false);
        let mut random = Random(8);
        let tokens = ids(&mut random, TOKENS);
        let want = bits(&chunked(&backend, &tokens, &[TOKENS]));
        for at in [1, 31, 32, 33, 63, 64, 80] {
            let rest = &want[at * VOCAB..];
            let state = backend.new_state().unwrap();
            run(&backend, state, &tokens[..at]);
            let fork = backend.fork(state).unwrap();
            let other = ids(&mut random, 40);
            let image = backend.export(state).unwrap();
            // What one does, the other does not see.
            run(&backend, state, &other);
            assert!(bits(&run(&backend, fork, &tokens[at..])) == rest, "fork at {at}");
            let import = model.load(1, false);
            let restored = import.import(&image).unwrap();
            assert!(bits(&run(&import, restored, &tokens[at..])) == rest, "import at {at}");
            // Cut back behind what was different, run again from where the cut fell.
            let len = backend.truncate(state, at).unwrap();
            assert!(len <= at && (len == at || len % PAGE_TOKENS == 0));
            assert!(bits(&run(&backend, state, &tokens[len..])) == want[len * VOCAB..], "cut at {at}");
        }
    }
}
