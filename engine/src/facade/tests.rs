//! What only the inside can arrange: two sessions in one batch.

use super::*;
use crate::backend::Logits;
use crate::cancel::CancelToken;
use crate::constrain::Type;
use crate::context::{Block, Checkpoint, Restore};
use crate::error::Error;
use crate::generate::{Event, Finish, Request};
use crate::schedule::{Job, Patience};
use std::sync::LazyLock;

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

/// Waits for ever.
fn patient() -> Patience<'static> {
    static NEVER: LazyLock<CancelToken> = LazyLock::new(CancelToken::new);
    Patience { cancel: &NEVER, deadline: None }
}

#[test]
fn two_sessions_share_one_pass_and_get_the_same_bits() {
    for name in ["llama-hd64-tied.s1.q4_1", "lfm2-hd64-tied.s1.q4_0"] {
        let model = load(name);
        let inputs = [(session(&model, 40), vec![5, 6, 7]), (session(&model, 9), vec![11])];
        let scheduler = &model.0.scheduler;
        let logits = |done| scheduler.output(done, patient()).unwrap().logits.unwrap();
        let apart: Vec<Vec<f32>> = inputs
            .iter()
            .map(|(s, tokens)| {
                let fork = s.fork().unwrap();
                logits(scheduler.run_job(job(&fork, tokens.clone()), None).unwrap())
            })
            .collect();
        let before = model.stats();
        let queued: Vec<_> =
            inputs.iter().map(|(s, tokens)| scheduler.enqueue(job(s, tokens.clone()))).collect();
        let together: Vec<Vec<f32>> =
            queued.into_iter().map(|id| logits(scheduler.wait(id, patient()).unwrap())).collect();
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
    assert_eq!(scheduler.wait(first, patient()).map(|_| ()), Err(Error::Cancelled));
    let done = scheduler.wait(second, patient()).unwrap();
    assert_eq!(scheduler.output(done, patient()).unwrap().logits.unwrap().len(), model.info().vocab_size);
}

#[test]
fn a_failing_neighbour_does_not_disturb_a_batch() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let (a, b) = (session(&model, 10), session(&model, 10));
    let scheduler = &model.0.scheduler;
    let (first, second) = (scheduler.enqueue(job(&a, vec![u32::MAX])), scheduler.enqueue(job(&b, vec![5])));
    assert!(scheduler.wait(first, patient()).is_err(), "an id outside the vocabulary");
    scheduler.discard(scheduler.wait(second, patient()).unwrap());
}

#[test]
fn a_checkpoint_after_a_stop_string_keeps_the_text_and_the_last_events() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let mut request = Request::new(Type::text().unwrap()).max_tokens(24);
    let plain = session(&model, 10).generate(&request).unwrap().finish().unwrap();
    // Every few characters of the text, so that the cut falls inside and between tokens.
    let middle: Vec<char> = plain.text.chars().skip(2).collect();
    for stop in middle.chunks(3).map(|c| c.iter().collect::<String>()) {
        request.options.stop = vec![stop.clone()];
        let mut s = session(&model, 10);
        let mut g = s.generate(&request).unwrap();
        let mut all = Vec::new();
        while let Some(event) = g.next().unwrap() {
            all.push(event);
        }
        let whole = g.finish().unwrap();
        assert_eq!(whole.finish, Finish::Stop, "{stop:?}");
        // Before the last event, and after the value has ended.
        for calls in [all.len().saturating_sub(1), all.len() + 1] {
            let mut s = session(&model, 10);
            let mut g = s.generate(&request).unwrap();
            for _ in 0..calls {
                g.next().unwrap();
            }
            let checkpoint = Checkpoint::from_bytes(&g.checkpoint().unwrap().to_bytes().unwrap()).unwrap();
            let mut restored = model.restore(&checkpoint, Restore::Exact).unwrap();
            let mut g = restored.resume(CancelToken::new()).unwrap();
            let mut rest = Vec::new();
            while let Some(event) = g.next().unwrap() {
                rest.push(event);
            }
            assert_eq!(rest, all.get(calls..).unwrap_or_default(), "{stop:?} after {calls} calls");
            let resumed = g.finish().unwrap();
            assert_eq!(
                (&resumed.text, resumed.finish),
                (&whole.text, Finish::Stop),
                "{stop:?} after {calls} calls"
            );
            assert_eq!(resumed.tokens, whole.tokens, "{stop:?} after {calls} calls");
        }
    }
}

#[test]
fn token_events_name_tokens_of_the_value() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let mut request = Request::new(Type::text().unwrap()).max_tokens(24);
    let plain = session(&model, 10).generate(&request).unwrap().finish().unwrap();
    // One byte: held back by nothing, met in the middle of a token or at its start.
    let stop = plain.text.chars().rev().find(char::is_ascii_alphanumeric).unwrap();
    request.options.stop = vec![stop.to_string()];
    let mut s = session(&model, 10);
    let mut g = s.generate(&request).unwrap();
    let mut ids = Vec::new();
    while let Some(event) = g.next().unwrap() {
        if let Event::Token { id, .. } = event {
            ids.push(id);
        }
    }
    assert_eq!(g.finish().unwrap().tokens, ids);
}

#[test]
fn a_choice_is_whole_or_refused() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let ty = Type::choice(["an unlikely choice of many tokens", "another one, no less unlikely"]).unwrap();
    let mut request = Request::new(ty).max_tokens(2);
    let result = session(&model, 10).generate(&request).map(|_| ());
    let Err(Error::BudgetTooSmall { needed }) = result else { panic!("{result:?}") };
    request.options.max_tokens = Some(needed);
    session(&model, 10).generate(&request).unwrap().finish().unwrap();
    request.options.stop = vec!["x".into()];
    assert!(session(&model, 10).generate(&request).is_err(), "a stop string would leave half a choice");
}

#[test]
fn a_checkpoint_cannot_raise_the_context_above_the_models() {
    let model = load("llama-hd64-tied.s1.q4_1");
    let mut s = session(&model, 10);
    s.seq.capacity = usize::MAX;
    let forged = Checkpoint::from_bytes(&s.checkpoint().unwrap().to_bytes().unwrap()).unwrap();
    let restored = model.restore(&forged, Restore::Exact).unwrap();
    assert_eq!(restored.capacity(), model.info().context_length);
}

#[test]
fn a_fork_of_4096_tokens_copies_no_page() {
    for name in ["llama-hd64-tied.s1.q4_1", "lfm2-hd64-tied.s1.q4_0"] {
        let path = format!("{}/../tests/fixtures/models/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
        let options = LoadOptions { threads: 2, prefix_cache: Some(0), ..Default::default() };
        let model = Model::load(path, options).unwrap();
        let mut s = model.session(SessionOptions::default()).unwrap();
        // More than the fixture was made for; what is counted here does not depend on positions.
        s.seq.capacity = 5000;
        s.append(&[Block::Tokens((0..4097).map(|i| 20 + (i * 31) % 800).collect())]).unwrap();
        assert_eq!(s.seq.filled(), Ok(4096));
        let (bytes, passes) = (model.state_bytes(), model.stats());
        let mut fork = s.fork().unwrap().fork().unwrap();
        assert_eq!((model.state_bytes(), model.pages_copied(), model.stats()), (bytes, 0, passes), "{name}");
        // 4,096 tokens are whole pages: not even a partial one is copied.
        fork.forward(&[7]).unwrap();
        assert_eq!(model.pages_copied(), 0, "{name}");
        let mut second = fork.fork().unwrap();
        drop(fork);
        second.forward(&[7]).unwrap();
        assert_eq!(model.pages_copied(), 0, "{name}: a page that nobody else has any more is not copied");
        let _third = second.fork().unwrap();
        second.forward(&[7]).unwrap();
        assert_eq!(model.pages_copied(), 1, "{name}: one partial page at the next write");
    }
}
