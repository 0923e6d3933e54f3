//! Keys and values of every type in a whole model: the same bits however the work is cut, and close to float32.

use super::model::*;
use crate::backend::cpu::{CpuBackend, CpuOptions};
use crate::backend::*;

const TOKENS: usize = 80;

fn load(model: &Model, threads: usize, portable: bool, kv: KvType) -> CpuBackend {
    let mut source = model;
    let options = CpuOptions { threads, portable, kv, ..Default::default() };
    CpuBackend::load(model.plan.clone(), &mut source, &options, &mut |_, _| Ok(())).unwrap()
}

fn whole(backend: &CpuBackend, tokens: &[u32]) -> Vec<f32> {
    run(backend, backend.new_state().unwrap(), tokens)
}

#[test]
fn the_bits_do_not_depend_on_how_the_work_is_cut() {
    for (r, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let tokens = ids(&mut Random(5), TOKENS);
        for kv in [KvType::F24, KvType::F16, KvType::Q8_0] {
            for portable in [false, true] {
                let backend = load(&model, 2, portable, kv);
                let want = bits(&whole(&backend, &tokens));
                assert!(backend.info().exactness_class.contains(&format!("-{kv}kv-")));
                for sizes in [&[1usize][..], &[7, 1, 31], &[33]] {
                    let state = backend.new_state().unwrap();
                    let (mut at, mut i, mut got) = (0, 0, Vec::new());
                    while at < TOKENS {
                        let end = TOKENS.min(at + sizes[i % sizes.len()]);
                        got.extend(bits(&run(&backend, state, &tokens[at..end])));
                        (at, i) = (end, i + 1);
                    }
                    assert!(got == want, "recipe {r}, {kv}, portable {portable}, chunks {sizes:?}");
                }
                for at in [1, 33, 50, 64] {
                    let state = backend.new_state().unwrap();
                    run(&backend, state, &tokens[..at]);
                    let fork = backend.fork(state).unwrap();
                    let image = backend.export(state).unwrap();
                    run(&backend, state, &tokens[..20]);
                    assert!(
                        bits(&run(&backend, fork, &tokens[at..])) == want[at * VOCAB..],
                        "{kv}: fork at {at}"
                    );
                    let import = load(&model, 1, portable, kv);
                    let restored = import.import(&image).unwrap();
                    assert!(
                        bits(&run(&import, restored, &tokens[at..])) == want[at * VOCAB..],
                        "{kv}: import"
                    );
                    let len = backend.truncate(state, at).unwrap();
                    assert!(bits(&run(&backend, state, &tokens[len..])) == want[len * VOCAB..], "{kv}: cut");
                }
            }
        }
    }
}

#[test]
fn each_type_is_as_close_as_it_can_be() {
    for (r, recipe) in recipes().into_iter().enumerate() {
        let model = recipe.build();
        let tokens = ids(&mut Random(5), TOKENS);
        let exact = whole(&load(&model, 2, false, KvType::F32), &tokens);
        let most = exact.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let mut before = 0.0;
        for (kv, bound) in [(KvType::F24, 2e-4), (KvType::F16, 4e-3), (KvType::Q8_0, 0.2)] {
            let got = whole(&load(&model, 2, false, kv), &tokens);
            let worst = exact.iter().zip(&got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / most;
            println!("recipe {r}, {kv}: {worst:.1e} of the largest logit");
            assert!(worst <= bound && worst >= before, "recipe {r}, {kv}: {worst}");
            before = worst;
        }
    }
}

#[test]
fn images_convert_between_types() {
    for recipe in recipes() {
        let model = recipe.build();
        let tokens = ids(&mut Random(5), 50);
        for from in KvType::ALL {
            let source = load(&model, 2, false, from);
            let state = source.new_state().unwrap();
            run(&source, state, &tokens[..45]);
            let image = source.export(state).unwrap();
            for to in KvType::ALL {
                let target = load(&model, 2, false, to);
                assert!(source.shape().same_layers(target.shape()));
                let converted = image.converted(source.shape(), target.shape()).unwrap();
                let restored = target.import(&converted).unwrap();
                let got = run(&target, restored, &tokens[45..]);
                assert!(got.iter().all(|x| x.is_finite()));
                // What is wider holds all that was there.
                if from == KvType::F24 && to == KvType::F32 {
                    let back = converted.converted(target.shape(), source.shape()).unwrap();
                    let again = source.import(&back).unwrap();
                    assert!(
                        bits(&run(&source, again, &tokens[45..]))
                            == bits(&run(&source, state, &tokens[45..]))
                    );
                }
            }
        }
    }
}
