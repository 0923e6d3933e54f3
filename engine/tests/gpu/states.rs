//! States: forks, cuts and host copies leave no trace in the bits. Neither does how the work was cut, as long as the
//! passes are of one kind: up to eight tokens, or more, take different kernels.

use crate::common::*;
use lean_engine::backend::{Backend, Batch, Input, Logits, PAGE_TOKENS};

const MODELS: [&str; 2] = [LLAMA, LFM2];

#[test]
fn chunks_and_batches_are_bit_identical_to_one_pass_alone() {
    for stem in MODELS {
        let Some(backend) = load(stem) else { return };
        let (one, two) = (ids(75, 1), ids(41, 2));
        let alone: Vec<_> =
            [&one, &two].map(|ids| bits(&run(&backend, backend.new_state().unwrap(), ids))).into();
        let states = [backend.new_state().unwrap(), backend.new_state().unwrap()];
        // Different chunk sizes, so that pages begin at different places of the chunks.
        let chunks: Vec<_> = one.chunks(15).zip(two.chunks(9)).collect();
        let mut last = None;
        for (a, b) in chunks {
            let slots = [a, b]
                .into_iter()
                .zip(states)
                .map(|(ids, state)| slot(state, Input::Tokens(ids.to_vec()), Logits::Last { read: true }));
            let ticket = backend.submit(Batch { slots: slots.collect() }).unwrap();
            last = Some([0, 1].map(|n| bits(&wait(&backend, ticket, n).unwrap().logits.unwrap())));
        }
        assert_eq!(last.unwrap().to_vec(), alone, "{stem}");
    }
}

#[test]
fn forks_go_their_own_ways() {
    for stem in MODELS {
        let Some(backend) = load(stem) else { return };
        let prompt = ids(45, 3);
        let state = backend.new_state().unwrap();
        run(&backend, state, &prompt);
        let bytes = backend.state_bytes();
        let forks = [state, backend.fork(state).unwrap(), backend.fork(state).unwrap()];
        assert_eq!(backend.state_bytes(), bytes, "{stem}: a fork copies nothing");
        for round in 0..2u32 {
            for (n, fork) in forks.into_iter().enumerate() {
                run(&backend, fork, &ids(7, 10 * round + n as u32));
            }
        }
        for (n, fork) in forks.into_iter().enumerate() {
            let fresh = backend.new_state().unwrap();
            for part in [prompt.clone(), ids(7, n as u32), ids(7, 10 + n as u32)] {
                run(&backend, fresh, &part);
            }
            let next = ids(3, 99);
            assert_eq!(
                bits(&run(&backend, fork, &next)),
                bits(&run(&backend, fresh, &next)),
                "{stem} fork {n}"
            );
        }
    }
}

#[test]
fn a_host_copy_continues_bit_identically() {
    for stem in MODELS {
        let Some(backend) = load(stem) else { return };
        // Lengths around page boundaries.
        for len in [0, 1, 2, PAGE_TOKENS - 1, PAGE_TOKENS, PAGE_TOKENS + 1] {
            let state = backend.new_state().unwrap();
            if len > 0 {
                run(&backend, state, &ids(len, 4));
            }
            let image = backend.export(state).unwrap();
            assert_eq!((image.len, image.pages.len()), (len, len.div_ceil(PAGE_TOKENS)));
            let copy = backend.import(&image).unwrap();
            let next = ids(7, 5);
            assert_eq!(
                bits(&run(&backend, copy, &next)),
                bits(&run(&backend, state, &next)),
                "{stem} at {len}"
            );
            backend.free_state(state);
            backend.free_state(copy);
        }
        // Growing pools move the pages of live states.
        let state = backend.new_state().unwrap();
        run(&backend, state, &ids(40, 6));
        let image = backend.export(state).unwrap();
        let copies: Vec<_> = (0..20).map(|_| backend.import(&image).unwrap()).collect();
        let want = bits(&run(&backend, state, &ids(2, 7)));
        for copy in copies {
            assert_eq!(bits(&run(&backend, copy, &ids(2, 7))), want, "{stem}");
        }
    }
}

#[test]
fn a_cut_state_is_as_if_the_rest_had_never_been() {
    for stem in MODELS {
        let Some(backend) = load(stem) else { return };
        let (all, next) = (ids(70, 8), ids(5, 9));
        let state = backend.new_state().unwrap();
        run(&backend, state, &all[..50]);
        run(&backend, state, &all[50..]);
        for len in [0, 1, 31, 32, 33, 64, 69, 70, 90] {
            let cut = backend.fork(state).unwrap();
            let reached = backend.truncate(cut, len).unwrap();
            let want = match stem {
                _ if len >= 70 => 70,
                LFM2 => len / PAGE_TOKENS * PAGE_TOKENS,
                _ => len,
            };
            assert_eq!((reached, backend.len(cut).unwrap()), (want, want), "{stem} cut to {len}");
            let fresh = backend.new_state().unwrap();
            for part in all[..want].chunks(50) {
                run(&backend, fresh, part);
            }
            let (got, expected) = (run(&backend, cut, &next), run(&backend, fresh, &next));
            if want == 1 {
                // The one token that is left was computed among many, here alone: by other kernels.
                let gap = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(gap < 1e-4, "{stem} cut to {len}: {gap}");
                // Among others than before, but again more than eight, it is the same.
                let other = backend.new_state().unwrap();
                run(&backend, other, &[&all[..1], &ids(9, 11)].concat());
                backend.truncate(other, 1).unwrap();
                let again = run(&backend, other, &next);
                assert_eq!(bits(&got), bits(&again), "{stem} cut to {len}");
                backend.free_state(other);
            } else {
                assert_eq!(bits(&got), bits(&expected), "{stem} cut to {len}");
            }
            backend.free_state(cut);
            backend.free_state(fresh);
        }
        backend.free_state(state);
        assert_eq!(backend.state_bytes(), 0);
    }
}
