//! Several values out of one context: one pass over the weights for all, and each what it is alone.

mod common;

use common::{load, models, session, LFM2, LLAMA};
use lean_engine::{
    Block, BranchRequest, CancelToken, Checkpoint, Error, Event, Generation, Model, Output, Request, Restore,
    Session, SessionOptions, Type,
};

const OBJECT: &str = r#"{"id": "number.integer", "name": "string < 24", "kind": "'bug' | 'feature'"}"#;

fn text(tokens: usize) -> Request {
    Request::new(Type::text().unwrap()).max_tokens(tokens)
}

fn ids(from: u32, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (from + i * 37) % 200).collect()
}

/// Branches of every kind: other blocks, other types, greedy and sampled, short and long.
fn mixed() -> Vec<(Vec<Block>, Request)> {
    let object = || Type::expr(OBJECT).unwrap();
    vec![
        (vec![], text(24)),
        (vec![], text(24).sample(0.8, 1)),
        (vec![], text(9).sample(0.8, 2)),
        (vec![Block::text(" and so")], Request::new(object()).max_tokens(120).sample(0.9, 3)),
        (vec![Block::Tokens(ids(5, 90))], text(17)),
        (vec![Block::text("{")], Request::new(Type::expr("'yes' | 'no'").unwrap())),
        (vec![], Request::new(object()).max_tokens(120).sample(0.9, 4)),
        (vec![Block::Tokens(ids(9, 1))], text(30).sample(1.2, 5)),
    ]
}

fn prepared(model: &Model) -> Session {
    let mut s = session(model);
    s.append(&[Block::Tokens(ids(0, 45))]).unwrap();
    s
}

fn start(session: &Session, branches: &[(Vec<Block>, Request)]) -> Vec<Generation<Session>> {
    let requests: Vec<_> =
        branches.iter().map(|(blocks, request)| BranchRequest { blocks, request }).collect();
    session.generate_many(&requests).unwrap()
}

/// What a generation leaves: value tokens, text, and the bits of the next logits.
fn end(generation: Generation<Session>) -> (Vec<u32>, String, Vec<u32>) {
    let (mut session, output) = generation.finish_with_session();
    let output: Output = output.unwrap();
    let logits = session.forward(&[7]).unwrap();
    (output.tokens, output.text, logits.into_iter().map(f32::to_bits).collect())
}

fn alone(model: &Model, branch: &(Vec<Block>, Request)) -> (Vec<u32>, String, Vec<u32>) {
    let mut s = prepared(model);
    s.append(&branch.0).unwrap();
    end(s.into_generation(&branch.1).map_err(|(_, e)| e).unwrap())
}

#[test]
fn branches_are_bit_for_bit_what_they_are_alone() {
    for name in models() {
        let model = load(&name);
        let branches = mixed();
        let want: Vec<_> = branches.iter().map(|b| alone(&model, b)).collect();
        // One after the other, whose events wait in them meanwhile.
        let got: Vec<_> = start(&prepared(&model), &branches).into_iter().map(end).collect();
        assert_eq!(got, want, "{name}: one after the other");
        // In turns.
        let mut turns = start(&prepared(&model), &branches);
        while turns.iter_mut().fold(false, |more, g| g.next().unwrap().is_some() | more) {}
        assert_eq!(turns.into_iter().map(end).collect::<Vec<_>>(), want, "{name}: in turns");
        // From as many threads.
        let threads: Vec<_> = start(&prepared(&model), &branches)
            .into_iter()
            .map(|g| std::thread::spawn(move || end(g)))
            .collect();
        let got: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(got, want, "{name}: on threads");
    }
}

#[test]
fn a_pass_over_the_weights_serves_all_branches() {
    for name in models() {
        let model = load(&name);
        let s = prepared(&model);
        let branches: Vec<_> = (0..8).map(|seed| (vec![], text(40).sample(0.7, seed))).collect();
        let before = model.stats();
        let outputs: Vec<Output> = start(&s, &branches).into_iter().map(|g| g.finish().unwrap()).collect();
        let after = model.stats();
        // The step that chooses EOS yields no token.
        let steps: Vec<u64> =
            outputs.iter().map(|o| o.tokens.len() as u64 + u64::from(o.tokens.len() < 40)).collect();
        let (longest, all) = (*steps.iter().max().unwrap(), steps.iter().sum::<u64>());
        assert_eq!(after.tokens - before.tokens, all, "{name}");
        assert_eq!(after.slots - before.slots, all, "{name}");
        assert_eq!(after.passes - before.passes, longest, "{name}: as many passes as the longest has steps");
        assert!(all > 4 * longest, "{name}: the values are too short to show anything: {steps:?}");
    }
}

#[test]
fn prefills_of_several_contexts_share_passes() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let branches: Vec<_> = (0..8).map(|i| (vec![Block::Tokens(ids(11 * i, 20))], text(1))).collect();
        let before = model.stats();
        for g in start(&prepared(&model), &branches) {
            g.finish().unwrap();
        }
        let (tokens, passes) = (model.stats().tokens - before.tokens, model.stats().passes - before.passes);
        // The session's own: 44 tokens in one pass. The branches': its pending token and 20 each.
        assert_eq!((tokens, passes), (44 + 8 * 21, 1 + (8 * 21u64).div_ceil(64)), "{name}");
    }
}

#[test]
fn what_contexts_have_in_common_is_computed_once() {
    let model = load(LLAMA);
    let blocks = |last: u32| vec![Block::Tokens([ids(0, 100), vec![last]].concat())];
    let branches: Vec<_> = (0..8).map(|i| (blocks(40 + i), text(3))).collect();
    let before = model.stats();
    let requests: Vec<_> =
        branches.iter().map(|(blocks, request)| BranchRequest { blocks, request }).collect();
    let outputs: Vec<Output> =
        model.generate_many(None, &requests).unwrap().into_iter().map(|g| g.finish().unwrap()).collect();
    assert_eq!(model.stats().tokens - before.tokens, 100 + 8 * 3);
    assert!(outputs.iter().all(|o| o.usage.reused_tokens == 100));
}

#[test]
fn branches_of_a_checkpoint_are_cancelled_and_checkpointed_one_by_one() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let checkpoint = prepared(&model).checkpoint().unwrap();
        let branches: Vec<_> = (0..3).map(|seed| text(30).sample(0.8, seed)).collect();
        let want: Vec<_> = branches.iter().map(|r| alone(&model, &(vec![], r.clone()))).collect();
        let requests: Vec<_> =
            branches.iter().map(|request| BranchRequest { blocks: &[], request }).collect();
        let mut all = model.generate_many(Some(&checkpoint), &requests).unwrap();
        for _ in 0..5 {
            all[0].next().unwrap();
        }
        branches[1].cancel.cancel();
        let (third, second, first) = (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
        // Five steps ahead of its events, none of which was delivered.
        let middle = Checkpoint::from_bytes(&third.checkpoint().unwrap().to_bytes().unwrap()).unwrap();
        let (session, cancelled) = second.finish_with_session();
        assert_eq!(cancelled, Err(Error::Cancelled));
        assert_eq!(session.tokens(), checkpoint.tokens(), "{name}: its session is as it was");
        assert_eq!(end(first), want[0], "{name}");
        drop(third);
        let restored = model.restore(&middle, Restore::Exact).unwrap();
        let mut resumed = restored.into_resumed(CancelToken::new()).map_err(|(_, e)| e).unwrap();
        let mut events = Vec::new();
        while let Some(event) = resumed.next().unwrap() {
            events.extend(match event {
                Event::Token { id, .. } => Some(id),
                _ => None,
            });
        }
        assert_eq!(events, want[2].0, "{name}: no event is lost");
        assert_eq!(end(resumed), want[2], "{name}");
    }
}

#[test]
fn a_branch_that_cannot_be_started_starts_none() {
    let model = load(LLAMA);
    let s = model.session(SessionOptions { context: Some(60) }).unwrap();
    let (short, long) = (vec![Block::Tokens(ids(0, 10))], vec![Block::Tokens(ids(0, 50))]);
    let (five, eleven) = (text(5), text(11));
    let before = model.stats();
    let refused = |branches: &[BranchRequest<'_>]| s.generate_many(branches).map(|_| ()).unwrap_err();
    let overflow = refused(&[
        BranchRequest { blocks: &short, request: &five },
        BranchRequest { blocks: &long, request: &eleven },
    ]);
    assert_eq!(overflow, Error::ContextOverflow { needed: 61, available: 60 });
    let mut stop = Request::new(Type::expr("'a' | 'b'").unwrap());
    stop.options.stop = vec!["x".into()];
    let bad = refused(&[
        BranchRequest { blocks: &short, request: &five },
        BranchRequest { blocks: &short, request: &stop },
    ]);
    assert!(matches!(bad, Error::InvalidArgument { .. }), "{bad:?}");
    assert_eq!(model.stats(), before, "nothing ran");
    assert_eq!(s.generate_many(&[]).map(|all| all.len()), Ok(0));
}
