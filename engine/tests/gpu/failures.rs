//! What is refused, and that nothing changes then.

use crate::common::*;
use lean_engine::backend::gpu::GpuOptions;
use lean_engine::backend::{Backend, Batch, Input, Logits, Precision, SamplerParams, StateId, Ticket};
use lean_engine::Error;

#[test]
fn an_adapter_that_is_not_there_is_named() {
    let options =
        GpuOptions { adapter: Some("no such adapter".into()), allow_software: true, ..Default::default() };
    match load_with(LLAMA, &options).err() {
        Some(Error::Device { reason }) => assert!(reason.contains("no such adapter"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bindings_too_small_for_the_model_are_refused() {
    if load(LLAMA).is_none() {
        return;
    }
    for (max_binding, code) in [(0, 400), (1000, 400), (20_000, 400)] {
        let options = GpuOptions { max_binding: Some(max_binding), ..any_adapter() };
        let error = load_with(LLAMA, &options).err().expect("refused");
        assert_eq!(error.code(), code, "{max_binding}: {error}");
    }
}

#[test]
fn precision_fast_is_a_class_of_its_own_or_says_what_the_device_lacks() {
    let Some(exact) = load(LLAMA) else { return };
    assert_eq!(exact.info().exactness_class, "gpu-exact-f32kv-r4");
    match load_with(LLAMA, &GpuOptions { precision: Precision::Fast, ..any_adapter() }) {
        Ok(fast) => {
            assert_eq!(fast.info().exactness_class, "gpu-fast-f32kv-r1");
            let of = |backend: &dyn Backend| run(backend, backend.new_state().unwrap(), &ids(45, 1));
            let (a, b) = (of(&exact), of(&fast));
            let gap = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(gap > 0.0 && gap < 0.05, "{gap}");
        }
        Err(Error::Device { reason }) => assert!(reason.contains("floats of 16 bits"), "{reason}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn states_that_outgrow_the_device_are_out_of_memory_and_stay_usable() {
    if load(LLAMA).is_none() {
        return;
    }
    // A page of a layer is 2 x 2 heads x 32 x 64 x 4 = 32 KiB: this holds 9 of them.
    let backend = load_with(LLAMA, &GpuOptions { max_binding: Some(300_000), ..any_adapter() }).unwrap();
    let state = backend.new_state().unwrap();
    let mut held = 0;
    let error = loop {
        let input = Input::Tokens(ids(32, held as u32));
        match backend.submit(Batch { slots: vec![slot(state, input, Logits::None)] }) {
            Ok(ticket) => {
                wait(&backend, ticket, 0).unwrap();
                held += 32;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!((held, backend.len(state).unwrap()), (9 * 32, 9 * 32));
    backend.truncate(state, 64).unwrap();
    run(&backend, state, &ids(32, 1));
}

#[test]
fn a_cancelled_slot_ends_the_batch_and_changes_nothing() {
    let Some(backend) = load(LFM2) else { return };
    let prompt = ids(10, 1);
    let states = [backend.new_state().unwrap(), backend.new_state().unwrap()];
    for state in states {
        run(&backend, state, &prompt);
    }
    let bytes = backend.state_bytes();
    let slots: Vec<_> = states.map(|s| slot(s, Input::Tokens(ids(60, 2)), Logits::None)).into();
    slots[1].cancel.cancel();
    assert_eq!(backend.submit(Batch { slots }).unwrap_err(), Error::Cancelled);
    assert_eq!(backend.state_bytes(), bytes);
    for state in states {
        assert_eq!(backend.len(state).unwrap(), 10);
        let fresh = backend.new_state().unwrap();
        run(&backend, fresh, &prompt);
        assert_eq!(bits(&run(&backend, state, &[9])), bits(&run(&backend, fresh, &[9])));
    }
}

#[test]
fn what_makes_no_sense_is_an_invalid_argument() {
    let Some(backend) = load(LLAMA) else { return };
    let state = backend.new_state().unwrap();
    let bad = |slots| backend.submit(Batch { slots }).unwrap_err();
    let one = |input| vec![slot(state, input, Logits::None)];
    let ticket = submit(&backend, state, Input::Tokens(vec![5]), Logits::Last { read: false });
    let params = SamplerParams::default();
    let cases = [
        ("no slot", bad(vec![])),
        ("unknown state", bad(vec![slot(StateId(999), Input::Tokens(vec![5]), Logits::None)])),
        ("state twice", bad([one(Input::Tokens(vec![5])), one(Input::Tokens(vec![6]))].concat())),
        ("no token", bad(one(Input::Tokens(vec![])))),
        ("unknown token", bad(one(Input::Tokens(vec![1_000_000])))),
        ("too many tokens", bad(one(Input::Tokens(vec![5; 100_000])))),
        ("unknown ticket", bad(one(Input::Sampled(Ticket(999), 0)))),
        ("unknown slot", bad(one(Input::Sampled(ticket, 7)))),
        ("not selected", bad(one(Input::Sampled(ticket, 0)))),
        ("poll of an unknown slot", backend.poll(ticket, 7).unwrap_err()),
        ("poll of an unknown ticket", backend.poll(Ticket(999), 0).unwrap_err()),
        ("selection of an unknown slot", backend.select(ticket, 7, greedy(&params)).unwrap_err()),
    ];
    for (name, error) in cases {
        assert!(matches!(error, Error::InvalidArgument { .. }), "{name}: {error}");
    }
    backend.select(ticket, 0, greedy(&params)).unwrap();
    assert_eq!(backend.select(ticket, 0, greedy(&params)).unwrap_err().code(), 100, "a second selection");
    assert!(wait(&backend, ticket, 0).unwrap().token.is_some());
    assert_eq!(backend.poll(ticket, 0).unwrap_err().code(), 100, "a result is taken once");
    assert_eq!(backend.len(state).unwrap(), 1, "refused batches changed nothing");
    backend.free_state(StateId(999));
    backend.discard(ticket, 0);
}

#[test]
fn an_image_of_another_shape_is_refused() {
    let Some(backend) = load(LFM2) else { return };
    let state = backend.new_state().unwrap();
    run(&backend, state, &ids(40, 1));
    let image = backend.export(state).unwrap();
    let mut fewer = image.clone();
    fewer.pages.pop();
    let mut shorter = image.clone();
    shorter.pages[0] = vec![0.0; 10].into();
    let mut windowless = image.clone();
    windowless.windows.clear();
    for image in [fewer, shorter, windowless] {
        assert_eq!(backend.import(&image).unwrap_err().code(), 100);
    }
}
