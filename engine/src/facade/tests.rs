//! What only the inside can arrange: two sessions in one batch.

use super::*;
use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::context::Block;
use crate::error::Error;
use crate::schedule::Job;

fn load(name: &str) -> Model {
    let path = format!("{}/../tests/fixtures/models/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
    Model::load(path, LoadOptions { threads: 2, ..Default::default() }).expect("the fixture model loads")
}

fn session(model: &Model, tokens: usize) -> Session {
    let ids = (0..tokens as u32).map(|i| 20 + (i * 31) % 800).collect();
    let mut s = model.session(SessionOptions::default()).unwrap();
    s.append(&[Block::Tokens(ids)]).unwrap();
    s
}

fn job(s: &Session, tokens: Vec<u32>) -> Job {
    Job { state: s.seq.state(), tokens, logits: Logits::Last { read: true }, cancel: CancelToken::new() }
}

#[test]
fn two_sessions_share_one_pass_and_get_the_same_bits() {
    for name in ["llama-hd64-tied.s1.q4_1", "lfm2-hd64-tied.s1.q4_0"] {
        let model = load(name);
        let inputs = [(session(&model, 40), vec![5, 6, 7]), (session(&model, 9), vec![11])];
        let scheduler = &model.0.scheduler;
        let logits = |done| scheduler.output(done).unwrap().logits.unwrap();
        let apart: Vec<Vec<f32>> = inputs
            .iter()
            .map(|(s, tokens)| {
                let fork = s.fork().unwrap();
                logits(scheduler.run_job(job(&fork, tokens.clone())).unwrap())
            })
            .collect();
        let before = model.stats();
        let queued: Vec<_> = inputs.iter().map(|(s, tokens)| scheduler.enqueue(job(s, tokens.clone()))).collect();
        let together: Vec<Vec<f32>> = queued.into_iter().map(|id| logits(scheduler.wait(id).unwrap())).collect();
        let after = model.stats();
        assert_eq!((after.passes - before.passes, after.slots - before.slots), (1, 2), "{name}");
        for (a, b) in apart.iter().zip(&together) {
            assert!(a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits()), "{name}: the bits differ");
        }
    }
}

#[test]
fn a_cancelled_neighbour_does_not_disturb_a_batch() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let (a, b) = (session(&model, 10), session(&model, 10));
    let scheduler = &model.0.scheduler;
    let cancelled = job(&a, vec![5]);
    cancelled.cancel.cancel();
    let (first, second) = (scheduler.enqueue(cancelled), scheduler.enqueue(job(&b, vec![5])));
    assert_eq!(scheduler.wait(first).map(|_| ()), Err(Error::Cancelled));
    let done = scheduler.wait(second).unwrap();
    assert_eq!(scheduler.output(done).unwrap().logits.unwrap().len(), model.info().vocab_size);
}

#[test]
fn a_failing_neighbour_does_not_disturb_a_batch() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let (a, b) = (session(&model, 10), session(&model, 10));
    let scheduler = &model.0.scheduler;
    let (first, second) = (scheduler.enqueue(job(&a, vec![u32::MAX])), scheduler.enqueue(job(&b, vec![5])));
    assert!(scheduler.wait(first).is_err(), "an id outside the vocabulary");
    scheduler.discard(scheduler.wait(second).unwrap());
}
