//! Types of keys and values through the facade: classes, checkpoints, conversion, the gate.

mod common;

use common::{fixture, load_with, session, LFM2, LLAMA};
use lean_engine::{
    BackendChoice, Block, Checkpoint, Error, KvType, LoadOptions, Model, Precision, Restore, Restored,
    Session,
};

fn load(name: &str, kv: KvType) -> Model {
    load_with(name, LoadOptions { threads: 2, kv, ..Default::default() })
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (i * 37) % 900).collect()
}

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

fn filled(model: &Model, ids: &[u32]) -> Session {
    let mut s = session(model);
    s.append(&[Block::Tokens(ids.to_vec())]).unwrap();
    s
}

#[test]
fn a_token_takes_what_its_type_says() {
    let bytes = |kv| load(LLAMA, kv).info().state_bytes_per_token as f64;
    let full = bytes(KvType::F32);
    for (kv, share) in [(KvType::F24, 0.75), (KvType::F16, 0.5), (KvType::Q8_0, 34.0 / 32.0 / 4.0)] {
        assert_eq!(bytes(kv) / full, share, "{kv}");
    }
}

#[test]
fn checkpoints_carry_the_type() {
    for name in [LLAMA, LFM2] {
        let ids = ids(90);
        for kv in KvType::ALL {
            let model = load(name, kv);
            let class = model.info().exactness_class.clone();
            assert!(class.contains(&format!("-{kv}kv-")), "{class}");
            let whole = bits(filled(&model, &ids[..80]).forward(&ids[80..]).unwrap());
            for cut in [1, 32, 50, 77] {
                let checkpoint = filled(&model, &ids[..cut]).checkpoint().unwrap();
                let bytes = checkpoint.to_bytes().unwrap();
                let stored = Checkpoint::from_bytes(&bytes).unwrap();
                let info = stored.info().unwrap();
                assert!(bytes.len() as u64 <= info.state_bytes + 4 * cut as u64 + 1200);
                let other = load(name, kv);
                let mut restored = other.restore(&stored, Restore::Exact).unwrap();
                assert_eq!(bits_of(restored.forward(&ids[cut..])), whole, "{name}, {kv}, cut at {cut}");
            }
        }
    }
}

#[test]
fn fast_is_a_class_of_its_own_with_the_same_promise() {
    let load = |precision, threads| {
        let backend = BackendChoice::Cpu;
        load_with(LLAMA, LoadOptions { backend, precision, threads, ..Default::default() })
    };
    let (model, ids) = (load(Precision::Fast, 2), ids(90));
    let class = model.info().exactness_class.clone();
    assert!(class.starts_with("cpu-fast-f16kv-"), "{class}");
    let whole = bits(filled(&model, &ids[..80]).forward(&ids[80..]).unwrap());
    for (cut, threads) in [(1, 1), (32, 2), (50, 3), (77, 1)] {
        let stored = filled(&model, &ids[..cut]).checkpoint().unwrap();
        let mut restored = load(Precision::Fast, threads).restore(&stored, Restore::Exact).unwrap();
        assert_eq!(bits_of(restored.forward(&ids[cut..])), whole, "cut at {cut}, {threads} threads");
    }
    let exact = load(Precision::Exact, 2);
    assert_ne!(bits(filled(&exact, &ids[..80]).forward(&ids[80..]).unwrap()), whole);
    let stored = filled(&exact, &ids).checkpoint().unwrap();
    assert!(matches!(model.restore(&stored, Restore::Exact), Err(Error::Incompatible { .. })));
}

fn bits_of(logits: lean_engine::Result<Vec<f32>>) -> Vec<u32> {
    bits(logits.unwrap())
}

#[test]
fn another_type_is_refused_and_converted_when_asked() {
    for name in [LLAMA, LFM2] {
        let ids = ids(60);
        for from in KvType::ALL {
            let checkpoint = filled(&load(name, from), &ids[..50]).checkpoint().unwrap();
            let stored = Checkpoint::from_bytes(&checkpoint.to_bytes().unwrap()).unwrap();
            for to in KvType::ALL.into_iter().filter(|to| *to != from) {
                let model = load(name, to);
                let own = filled(&model, &ids[..50]).forward(&ids[50..]).unwrap();
                for checkpoint in [&checkpoint, &stored] {
                    match model.restore(checkpoint, Restore::Exact).map(|_| ()) {
                        Err(Error::Incompatible { what, expected, found }) => {
                            assert_eq!(what, "exactness class");
                            assert!(expected.contains(to.name()) && found.contains(from.name()));
                        }
                        other => panic!("{from} to {to}: {other:?}"),
                    }
                    let mut converted = model.restore(checkpoint, Restore::Convert).unwrap();
                    assert_eq!(converted.restored(), Some(Restored::Converted));
                    let got = converted.forward(&ids[50..]).unwrap();
                    let worst = got.iter().zip(&own).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(worst < 0.5, "{name}, {from} to {to}: {worst}");
                    let again =
                        model.restore(checkpoint, Restore::Reprefill).unwrap().forward(&ids[50..]).unwrap();
                    assert_eq!(bits(again), bits(own.clone()));
                }
            }
        }
    }
}

/// Largest difference of the reference's top logits after prefill, and equal greedy tokens of all.
fn measure(name: &str, kv: KvType) -> (f32, usize, usize) {
    let text = std::fs::read(fixture(&format!("{name}.json"))).unwrap();
    let reference: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let model = load(name, kv);
    let (mut worst, mut equal, mut total) = (0.0f32, 0, 0);
    for case in reference["cases"].as_array().unwrap() {
        let ids: Vec<u32> = serde_json::from_value(case["input_ids"].clone()).unwrap();
        let mut s = session(&model);
        let mut last = s.forward(&ids).unwrap();
        let top: Vec<(usize, f32)> = serde_json::from_value(case["prefill_top"].clone()).unwrap();
        worst = top.iter().map(|(id, want)| (last[*id] - want).abs()).fold(worst, f32::max);
        let greedy: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
        total += greedy.len();
        for want in greedy {
            let best = (0..last.len()).fold(0, |b, i| if last[i] > last[b] { i } else { b });
            if best as u32 != want {
                break;
            }
            equal += 1;
            last = s.forward(&[want]).unwrap();
        }
    }
    (worst, equal, total)
}

#[test]
fn f24_passes_the_gate_and_the_others_are_measured() {
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") || !path.with_extension("json").exists() {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for kv in KvType::ALL {
            let (worst, equal, total) = measure(&name, kv);
            println!("{name} {kv}: {worst:.1e}, {equal} of {total} greedy tokens equal");
            if matches!(kv, KvType::F32 | KvType::F24) {
                assert!(worst <= 1e-3 && equal == total, "{name} {kv}: {worst}, {equal} of {total}");
            }
        }
    }
}
