//! What the calls do, apart from arithmetic.

use super::model::*;
use crate::backend::cpu::{CpuBackend, CpuOptions};
use crate::backend::*;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::model::plan::TensorSpec;

fn hybrid() -> Model {
    Recipe { layers: "caw", ..Recipe::default() }.build()
}

fn submit(backend: &CpuBackend, slots: Vec<Slot>) -> Result<Ticket> {
    backend.submit(Batch { slots })
}

#[test]
fn lengths_grow_and_shrink_as_documented() {
    let windowless = Recipe::default().build().load(1, false);
    let hybrid = hybrid().load(1, false);
    for (backend, cut, reached) in
        [(&windowless, 45, 45), (&hybrid, 45, 32), (&hybrid, 64, 64), (&hybrid, 31, 0), (&hybrid, 99, 70)]
    {
        let state = backend.new_state().unwrap();
        assert_eq!(backend.len(state), Ok(0));
        run(backend, state, &ids(&mut Random(1), 70));
        assert_eq!(backend.len(state), Ok(70));
        assert_eq!(backend.truncate(state, cut), Ok(reached));
        assert_eq!(backend.len(state), Ok(reached));
    }
}

#[test]
fn shared_pages_are_counted_once() {
    let backend = hybrid().load(1, false);
    let state = backend.new_state().unwrap();
    run(&backend, state, &ids(&mut Random(1), 70));
    let one = backend.state_bytes();
    assert_eq!(one, backend.shape().bytes_for(70));
    let fork = backend.fork(state).unwrap();
    assert_eq!(backend.state_bytes(), one);
    run(&backend, fork, &[1]);
    let page = backend.shape().page_elems() as u64 * 4;
    let windows = backend.shape().window_elems as u64 * 4;
    // The partial page and the windows are copied, nothing else.
    assert_eq!(backend.state_bytes(), one + page + windows);
    backend.free_state(state);
    assert_eq!(backend.state_bytes(), one);
    backend.free_state(fork);
    assert_eq!(backend.state_bytes(), 0);
}

#[test]
fn an_exported_image_does_not_change() {
    let backend = hybrid().load(1, false);
    let state = backend.new_state().unwrap();
    run(&backend, state, &ids(&mut Random(1), 40));
    let image = backend.export(state).unwrap();
    let before: Vec<Vec<u32>> = image.pages.iter().map(|p| bits(p)).collect();
    run(&backend, state, &ids(&mut Random(2), 40));
    assert!(image.pages.iter().map(|p| bits(p)).collect::<Vec<_>>() == before);
}

#[test]
fn images_of_another_shape_are_refused() {
    let backend = hybrid().load(1, false);
    let state = backend.new_state().unwrap();
    run(&backend, state, &ids(&mut Random(1), 40));
    let good = backend.export(state).unwrap();
    let mut bad = [good.clone(), good.clone(), good.clone(), good.clone()];
    bad[0].pages.pop();
    bad[1].pages[0] = vec![0.0; 3].into();
    bad[2].windows.push(0.0);
    bad[3].len = usize::MAX;
    for image in bad {
        assert!(matches!(backend.import(&image), Err(Error::BadCheckpoint { .. })));
    }
    assert!(backend.import(&good).is_ok());
}

#[test]
fn unusable_batches_are_errors_and_change_nothing() {
    let backend = hybrid().load(1, false);
    let state = backend.new_state().unwrap();
    let other = backend.new_state().unwrap();
    run(&backend, state, &[1, 2, 3]);
    let bytes = backend.state_bytes();
    let last = Logits::Last { read: false };
    let sampled = Slot { input: Input::Sampled(Ticket(99), 0), ..slot(state, &[], last) };
    for slots in [
        vec![],
        vec![slot(state, &[], last)],
        vec![slot(state, &[VOCAB as u32], last)],
        vec![slot(StateId(1234), &[1], last)],
        vec![slot(other, &[1], last), slot(state, &[1], last), slot(other, &[1], last)],
        vec![sampled],
    ] {
        assert!(matches!(submit(&backend, slots), Err(Error::InvalidArgument { .. })));
        assert_eq!((backend.len(state), backend.len(other), backend.state_bytes()), (Ok(3), Ok(0), bytes));
    }
    backend.free_state(other);
    for error in [
        backend.len(other).err(),
        backend.fork(other).err(),
        backend.export(other).err(),
        backend.truncate(other, 0).err(),
    ] {
        assert!(matches!(error, Some(Error::InvalidArgument { .. })));
    }
}

#[test]
fn a_cancelled_pass_leaves_every_state_as_it_was() {
    for threads in [1, 2] {
        let backend = hybrid().load(threads, false);
        let states = [backend.new_state().unwrap(), backend.new_state().unwrap()];
        let tokens = ids(&mut Random(3), 50);
        for s in states {
            run(&backend, s, &tokens[..35]);
        }
        let before: Vec<StateImage> = states.map(|s| backend.export(s).unwrap()).to_vec();
        let want = backend.fork(states[0]).unwrap();
        let want = bits(&run(&backend, want, &tokens[35..]));
        let cancel = CancelToken::new();
        cancel.cancel();
        let slots = vec![
            slot(states[0], &tokens[..40], Logits::None),
            Slot { cancel, ..slot(states[1], &tokens[..3], Logits::All) },
        ];
        assert_eq!(submit(&backend, slots), Err(Error::Cancelled));
        for (s, before) in states.iter().zip(&before) {
            let after = backend.export(*s).unwrap();
            assert_eq!(
                (after.len, after.pages.len(), bits(&after.windows)),
                (before.len, before.pages.len(), bits(&before.windows))
            );
            assert!(bits(&run(&backend, *s, &tokens[35..])) == want);
        }
    }
}

#[test]
fn a_pass_notices_cancellation_while_it_runs() {
    // Long enough that the other thread's signal comes before its end, however slow that thread is to start.
    let model = Recipe { layers: "aaaaaaaaaaaaaaaa", ..Recipe::default() }.build();
    let backend = model.load(2, false);
    let state = backend.new_state().unwrap();
    let tokens = ids(&mut Random(3), 1000);
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let signal = cancel.clone();
        scope.spawn(move || signal.cancel());
        loop {
            let slot = Slot { cancel: cancel.clone(), ..slot(state, &tokens, Logits::None) };
            match submit(&backend, vec![slot]) {
                Ok(ticket) => backend.discard(ticket, 0),
                Err(e) => break assert_eq!(e, Error::Cancelled),
            }
            backend.truncate(state, 0).unwrap();
        }
    });
    assert_eq!(backend.len(state), Ok(0));
}

fn greedy<'a>(params: &'a SamplerParams, mask: Option<&'a Mask>) -> Selection<'a> {
    Selection { params, history: &[], random: 0, mask }
}

#[test]
fn tokens_are_selected_once_and_feed_the_next_pass() {
    let backend = hybrid().load(1, false);
    let params = SamplerParams::default();
    let state = backend.new_state().unwrap();
    let twin = backend.new_state().unwrap();
    let ticket = submit(&backend, vec![slot(state, &[5, 6], Logits::Last { read: true })]).unwrap();
    assert!(backend.select(ticket, 1, greedy(&params, None)).is_err());
    backend.select(ticket, 0, greedy(&params, None)).unwrap();
    assert!(backend.select(ticket, 0, greedy(&params, None)).is_err());
    let next = Slot { input: Input::Sampled(ticket, 0), ..slot(state, &[], Logits::All) };
    let next = submit(&backend, vec![next]).unwrap();
    let Poll::Ready(first) = backend.poll(ticket, 0).unwrap() else { panic!() };
    let all = run(&backend, twin, &[5, 6, first.token.unwrap()]);
    assert_eq!(bits(&first.logits.unwrap()), bits(&all[VOCAB..2 * VOCAB]));
    assert_eq!(bits(&logits(&backend, next, 0)), bits(&all[2 * VOCAB..]));
    // Taken slots are gone, and with the last one the ticket.
    assert!(backend.poll(ticket, 0).is_err());
    assert!(backend.poll(next, 0).is_err());
}

#[test]
fn masks_are_obeyed_and_an_empty_one_is_named() {
    let backend = hybrid().load(1, false);
    let params = SamplerParams::default();
    let state = backend.new_state().unwrap();
    let mut mask = Mask { words: vec![0; VOCAB.div_ceil(32)] };
    let last = Logits::Last { read: false };
    let ticket = submit(&backend, vec![slot(state, &[5], last)]).unwrap();
    let error = backend.select(ticket, 0, greedy(&params, Some(&mask))).unwrap_err();
    assert!(matches!(&error, Error::Internal(m) if m.contains("mask")), "{error}");
    mask.words[2] = 1 << 7;
    let ticket = submit(&backend, vec![slot(state, &[5], last)]).unwrap();
    backend.select(ticket, 0, greedy(&params, Some(&mask))).unwrap();
    let Poll::Ready(output) = backend.poll(ticket, 0).unwrap() else { panic!() };
    assert_eq!(output, SlotOutput { token: Some(71), logits: None });
}

#[test]
fn many_threads_may_submit() {
    let model = hybrid();
    let backend = model.load(2, false);
    let tokens = ids(&mut Random(4), 60);
    let state = backend.new_state().unwrap();
    let want = bits(&run(&backend, state, &tokens));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let state = backend.new_state().unwrap();
                    let mut got = Vec::new();
                    for chunk in tokens.chunks(17) {
                        got.extend(bits(&run(&backend, state, chunk)));
                        let fork = backend.fork(state).unwrap();
                        backend.free_state(fork);
                    }
                    assert!(got == want);
                    backend.free_state(state);
                }
            });
        }
    });
}

#[test]
fn a_load_can_be_stopped_and_reports_its_bytes() {
    let model = hybrid();
    let total: u64 = model.bytes.iter().map(|b| b.len() as u64).sum();
    let mut seen = Vec::new();
    let mut progress = |done, all| {
        seen.push((done, all));
        Ok(())
    };
    let mut source = &model;
    CpuBackend::load(model.plan.clone(), &mut source, &CpuOptions::default(), &mut progress).unwrap();
    assert_eq!(seen.first(), Some(&(0, total)));
    assert_eq!(seen.last(), Some(&(total, total)));
    let mut stop = |done, _| if done > 0 { Err(Error::Cancelled) } else { Ok(()) };
    let error = CpuBackend::load(model.plan.clone(), &mut source, &CpuOptions::default(), &mut stop).err();
    assert_eq!(error, Some(Error::Cancelled));
}

#[test]
fn weights_that_do_not_fit_the_plan_are_refused() {
    let good = Recipe { extras: true, layers: "ca", ..Recipe::default() }.build();
    for i in 0..good.plan.tensors.len() {
        let mut bad = good.clone();
        let TensorSpec { dtype, rows, cols, .. } = bad.plan.tensors[i].clone();
        // One row less, and the bytes to match: only the plan's shapes can tell.
        bad.plan.tensors[i].rows = rows - 1;
        bad.bytes[i].truncate((rows - 1) * cols / dtype.block_elems() * dtype.block_bytes());
        let mut source = &bad;
        let error =
            CpuBackend::load(bad.plan.clone(), &mut source, &CpuOptions::default(), &mut |_, _| Ok(())).err();
        assert!(matches!(error, Some(Error::BadModel { .. })), "tensor {i}: {error:?}");
    }
}

#[test]
fn classes_tell_instruction_sets_apart() {
    let model = Recipe::default().build();
    let info = model.load(1, true).info();
    assert_eq!((info.kind, info.exactness_class.as_str()), ("cpu", "cpu-exact-f32kv-nofma-r2"));
    assert!(info.weight_bytes > 0);
}
