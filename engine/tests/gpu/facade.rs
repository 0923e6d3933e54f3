//! What callers see of the GPU: models, sessions, checkpoints, adapters, branches.

use crate::common::*;
use lean_engine::{
    BackendChoice, Block, BranchRequest, Checkpoint, Finish, LoadOptions, Model, Request, Restore, Restored,
    Session, SessionOptions, Type,
};

fn options(backend: BackendChoice) -> LoadOptions {
    let adapter = any_adapter();
    LoadOptions {
        backend,
        adapter: adapter.adapter,
        allow_software_gpu: true,
        threads: 2,
        ..Default::default()
    }
}

/// A fixture's model on the GPU, where there is one.
fn gpu(stem: &str) -> Option<Model> {
    load(stem)?;
    Some(Model::load(fixture(stem, "gguf"), options(BackendChoice::Gpu)).unwrap())
}

fn cpu(stem: &str) -> Model {
    Model::load(fixture(stem, "gguf"), options(BackendChoice::Cpu)).unwrap()
}

fn prepared(model: &Model) -> Session {
    let mut session = model.session(SessionOptions::default()).unwrap();
    session.append(&[Block::Tokens(ids(45, 3))]).unwrap();
    session
}

fn text(tokens: usize) -> Request {
    Request::new(Type::text().unwrap()).max_tokens(tokens)
}

fn with(mut request: Request, change: impl FnOnce(&mut Request)) -> Request {
    change(&mut request);
    request
}

const OBJECT: &str = r#"{"id": "number.integer", "name": "string < 12", "kind": "'bug' | 'feature'"}"#;

#[test]
fn values_are_those_of_the_cpu() {
    for stem in [LLAMA, LFM2] {
        let Some(model) = gpu(stem) else { return };
        let reference = cpu(stem);
        let object = Request::new(Type::expr(OBJECT).unwrap()).max_tokens(120);
        for (name, request) in [
            ("text", text(40)),
            ("penalty", with(text(20), |r| r.options.repetition_penalty = 1.3)),
            ("sampled", text(20).sample(0.9, 7)),
            ("typed", object),
        ] {
            let of = |model: &Model| {
                let mut session = prepared(model);
                let output = session.generate(&request).unwrap().finish().unwrap();
                // What the value left behind continues alike.
                let next = session.generate(&text(5)).unwrap().finish().unwrap();
                (output.tokens, output.text, next.tokens)
            };
            assert_eq!(of(&model), of(&reference), "{stem} {name}");
        }
    }
}

#[test]
fn passes_that_ran_ahead_leave_no_trace() {
    for stem in [LLAMA, LFM2] {
        let Some(model) = gpu(stem) else { return };
        let whole = prepared(&model).generate(&text(24)).unwrap().finish().unwrap();
        let before = model.device_counters();
        let mut session = prepared(&model);
        let mut generation = session.generate(&text(24)).unwrap();
        for _ in 0..6 {
            generation.next().unwrap();
        }
        let checkpoint = generation.checkpoint().unwrap();
        let rest = generation.finish().unwrap();
        assert_eq!(
            (&rest.tokens, &rest.text),
            (&whole.tokens, &whole.text),
            "{stem}: looked at in the middle"
        );
        let mut resumed = model.restore(&checkpoint, Restore::Exact).unwrap();
        let resumed = resumed.resume(Default::default()).unwrap().finish().unwrap();
        assert_eq!(resumed.tokens, whole.tokens, "{stem}: resumed");
        let after = model.device_counters();
        assert!(after.dispatches > before.dispatches && after.submissions >= after.passes - before.passes);
        // A stop string takes tokens back that ran already.
        let stop = whole.text.chars().skip(whole.text.chars().count() / 2).take(3).collect::<String>();
        let mut session = prepared(&model);
        let stopped =
            session.generate(&with(text(24), |r| r.options.stop = vec![stop])).unwrap().finish().unwrap();
        assert_eq!(stopped.finish, Finish::Stop, "{stem}");
        let mut fresh = prepared(&model);
        fresh.append(&[Block::Tokens(stopped.tokens.clone())]).unwrap();
        let next = session.generate(&text(8)).unwrap().finish().unwrap();
        assert_eq!(next.tokens, fresh.generate(&text(8)).unwrap().finish().unwrap().tokens, "{stem}");
    }
}

#[test]
fn a_session_goes_on_after_its_device_was_lost() {
    for stem in [LLAMA, LFM2] {
        let (Some(model), Some(again)) = (gpu(stem), gpu(stem)) else { return };
        let next = |session: &mut Session| session.generate(&text(12)).unwrap().finish().unwrap().tokens;
        let mut session = prepared(&model);
        let saved = Checkpoint::from_bytes(&session.checkpoint().unwrap().to_bytes().unwrap()).unwrap();
        let live = session.checkpoint().unwrap();
        session.append(&[Block::Tokens(vec![5, 6, 7])]).unwrap();
        let whole = next(&mut session.fork().unwrap());
        model.lose_device();
        for error in
            [session.forward(&[9]).err(), session.checkpoint().err(), model.session(Default::default()).err()]
        {
            assert_eq!(error.unwrap().name(), "device_lost", "{stem}");
        }
        let strange = Checkpoint::from_bytes(&{
            let mut other = again.session(Default::default()).unwrap();
            other.append(&[Block::Tokens(vec![3; 9])]).unwrap();
            other.checkpoint().unwrap().to_bytes().unwrap()
        })
        .unwrap();
        for (name, checkpoint, how) in [
            ("persisted", Some(&saved), Restored::Imported),
            ("none", None, Restored::Reprefilled),
            ("lost with its device", Some(&live), Restored::Reprefilled),
            ("of another session", Some(&strange), Restored::Reprefilled),
        ] {
            let mut rebuilt = again.rebuild(&session, checkpoint).unwrap();
            assert_eq!(
                (rebuilt.restored(), rebuilt.tokens()),
                (Some(how), session.tokens()),
                "{stem} {name}"
            );
            assert_eq!(next(&mut rebuilt), whole, "{stem} {name}");
        }
        // The CPU takes it over as well.
        let mut here = cpu(stem).rebuild(&session, Some(&saved)).unwrap();
        assert_eq!(here.restored(), Some(Restored::Converted), "{stem}");
        assert_eq!(next(&mut here), whole, "{stem}");
        let other = if stem == LLAMA { LFM2 } else { LLAMA };
        assert_eq!(cpu(other).rebuild(&session, None).err().unwrap().name(), "incompatible");
    }
}

#[test]
fn greedy_text_is_one_submission_a_token() {
    let Some(model) = gpu(LLAMA) else { return };
    let mut session = prepared(&model);
    session.append(&[Block::Tokens(vec![5])]).unwrap();
    let submissions = |n: usize| {
        let before = model.device_counters().submissions;
        let made = session.fork().unwrap().generate(&text(n)).unwrap().finish().unwrap();
        (made.tokens.len() as u64, model.device_counters().submissions - before)
    };
    let (few, many) = (submissions(8), submissions(24));
    assert!(many.0 > few.0, "the text ends too early");
    // Some more at the beginning and the end, however long it is.
    assert!(many.1 - few.1 <= many.0 - few.0, "{few:?} {many:?}");
}

#[test]
fn checkpoints_cross_between_cpu_and_gpu() {
    for stem in [LLAMA, LFM2] {
        let Some(model) = gpu(stem) else { return };
        let reference = cpu(stem);
        for (from, to) in [(&model, &reference), (&reference, &model)] {
            let session = prepared(from);
            let bytes = session.checkpoint().unwrap().to_bytes().unwrap();
            let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
            assert!(to.restore(&checkpoint, Restore::Exact).is_err(), "{stem}: another class");
            let mut converted = to.restore(&checkpoint, Restore::Convert).unwrap();
            assert_eq!(converted.restored(), Some(Restored::Converted));
            let mut here = prepared(to);
            let (a, b) = (converted.forward(&[9]).unwrap(), here.forward(&[9]).unwrap());
            let gap = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(gap < 1e-3, "{stem}: {gap}");
            let next = |s: &mut Session| s.generate(&text(12)).unwrap().finish().unwrap().tokens;
            assert_eq!(next(&mut converted), next(&mut here), "{stem}");
        }
        // On the device itself a persisted state continues bit for bit.
        let mut session = prepared(&model);
        let bytes = session.checkpoint().unwrap().to_bytes().unwrap();
        let mut copy = model.restore(&Checkpoint::from_bytes(&bytes).unwrap(), Restore::Exact).unwrap();
        assert_eq!(bits(&copy.forward(&[9]).unwrap()), bits(&session.forward(&[9]).unwrap()), "{stem}");
    }
}

#[test]
fn branches_share_passes() {
    let Some(model) = gpu(LLAMA) else { return };
    let session = prepared(&model);
    let requests = [text(20), text(20).sample(0.9, 1), text(20).sample(0.9, 2), text(12)];
    let alone: Vec<_> = (requests.iter())
        .map(|r| session.fork().unwrap().generate(r).unwrap().finish().unwrap().tokens)
        .collect();
    let blocks: [Block; 0] = [];
    let branches: Vec<_> =
        requests.iter().map(|request| BranchRequest { blocks: &blocks, request }).collect();
    let before = model.stats().passes;
    let together: Vec<_> = (session.generate_many(&branches).unwrap().into_iter())
        .map(|g| g.finish_with_session().1.unwrap().tokens)
        .collect();
    assert_eq!(together, alone);
    assert!(model.stats().passes - before <= 24, "{}", model.stats().passes - before);
}

#[test]
fn adapters_equal_transformers_with_peft() {
    for name in ["llama-all-r4", "qwen2-all-r4"] {
        let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/adapters");
        let reference: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path.join(format!("{name}.json"))).unwrap()).unwrap();
        let stem = reference["gguf"].as_str().unwrap().trim_end_matches(".gguf");
        let Some(model) = gpu(stem) else { return };
        let adapter = model.load_adapter(path.join(name)).unwrap();
        let case = &reference["cases"][0];
        let ids: Vec<u32> = serde_json::from_value(case["input_ids"].clone()).unwrap();
        let top: Vec<(usize, f32)> = serde_json::from_value(case["prefill_top"].clone()).unwrap();
        let greedy: Vec<u32> = serde_json::from_value(case["greedy_ids"].clone()).unwrap();
        let mut session = model.session(SessionOptions::default()).unwrap();
        session.set_adapters(&[(adapter, 1.0)]).unwrap();
        let mut last = session.forward(&ids).unwrap();
        for (id, want) in top {
            assert!((last[id] - want).abs() <= 1e-3, "{name}: logit {id} is {}, not {want}", last[id]);
        }
        for want in greedy {
            let best = (0..last.len()).fold(0, |b, i| if last[i] > last[b] { i } else { b });
            assert_eq!(best as u32, want, "{name}");
            last = session.forward(&[want]).unwrap();
        }
    }
}

#[test]
fn auto_takes_the_cpu_and_says_why_where_only_software_draws() {
    if load(LLAMA).is_none() {
        return;
    }
    let options = LoadOptions { adapter: Some("llvmpipe".into()), threads: 2, ..Default::default() };
    let model = Model::load(fixture(LLAMA, "gguf"), options).unwrap();
    assert_eq!(model.info().backend, "cpu");
    let reason = model.info().fallback.clone().unwrap();
    assert!(reason.contains("software adapters were not asked for"), "{reason}");
    let options = LoadOptions { backend: BackendChoice::Auto, ..self::options(BackendChoice::Auto) };
    let model = Model::load(fixture(LLAMA, "gguf"), options).unwrap();
    assert_eq!((model.info().backend.as_str(), &model.info().fallback), ("gpu", &None));
}

#[test]
fn devices_are_listed() {
    if load(LLAMA).is_none() {
        return;
    }
    let devices = lean_engine::devices().unwrap();
    assert!(!devices.is_empty());
    for (index, device) in devices.iter().enumerate() {
        assert!(device.index == index && !device.name.is_empty() && device.max_binding > 0, "{device:?}");
    }
}
