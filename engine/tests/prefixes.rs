//! Sessions that begin like an earlier one do not compute their beginning again, and nobody can tell from the
//! results.

mod common;

use common::{load_with, models, Rng, LFM2, LLAMA};
use lean_engine::{
    Block, BranchRequest, Checkpoint, Context, LoadOptions, Model, Output, Request, Restore, SessionOptions,
    Type,
};

fn cached(name: &str, bytes: u64) -> Model {
    load_with(name, LoadOptions { threads: 2, prefix_cache: Some(bytes), ..Default::default() })
}

fn ids(from: u32, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (from + i * 37) % 200).collect()
}

fn text(tokens: usize) -> Request {
    Request::new(Type::text().unwrap()).max_tokens(tokens)
}

fn generate(model: &Model, tokens: Vec<u32>, request: &Request) -> Output {
    let blocks = [Block::Tokens(tokens)];
    model.generate(Context { checkpoint: None, blocks: &blocks }, request).unwrap()
}

/// Runs a call; returns its result and the tokens that went through the weights.
fn ran<R>(model: &Model, call: impl FnOnce() -> R) -> (R, u64) {
    let before = model.stats().tokens;
    let result = call();
    (result, model.stats().tokens - before)
}

#[test]
fn replies_are_the_same_with_and_without() {
    for name in models() {
        let (with, without) = (cached(&name, 64 << 20), cached(&name, 0));
        let mut rng = Rng(11);
        let mut known: Vec<Vec<u32>> = vec![ids(0, 150)];
        for step in 0..40 {
            // A context that begins like an earlier one, and goes on in its own way.
            let mut tokens = known[rng.below(known.len())].clone();
            tokens.truncate(1 + rng.below(tokens.len()));
            tokens.extend(ids(rng.below(500) as u32, 1 + rng.below(40)));
            let request = text(1 + rng.below(12)).sample(0.8, step);
            let (got, want) =
                (generate(&with, tokens.clone(), &request), generate(&without, tokens.clone(), &request));
            assert_eq!((&got.tokens, &got.text), (&want.tokens, &want.text), "{name}, step {step}");
            let last = |model: &Model| -> Vec<u32> {
                let mut s = model.session(SessionOptions::default()).unwrap();
                s.append(&[Block::Tokens(tokens.clone())]).unwrap();
                s.forward(&[7]).unwrap().into_iter().map(f32::to_bits).collect()
            };
            assert_eq!(last(&with), last(&without), "{name}, step {step}: logit bits");
            tokens.extend(got.tokens);
            known.push(tokens);
        }
        let (with, without) = (with.prefix_stats(), without.prefix_stats());
        assert!(with.hits > 40 && with.tokens_reused > 2000, "{name}: {with:?}");
        assert_eq!((without.lookups, without.entries), (0, 0), "{name}: it is off");
    }
}

#[test]
fn a_changed_last_turn_runs_only_the_last_turn() {
    for name in models() {
        let model = cached(&name, 64 << 20);
        let conversation = ids(3, 200);
        let turn = |last: u32| [conversation.clone(), ids(last, 12)].concat();
        let (_, first) = ran(&model, || generate(&model, turn(0), &text(5)));
        assert!((211..=217).contains(&first), "{name}: everything ran: {first}");
        for last in 1..4 {
            let (out, tokens) = ran(&model, || generate(&model, turn(last), &text(5)));
            // The turn, the value, and at most what lies between a page's start and the place of the change.
            let most = 12 + 5 + 31;
            assert!(tokens <= most, "{name}: {tokens} tokens ran for a new last turn");
            assert!(out.usage.reused_tokens >= 200 - 31, "{name}: {:?}", out.usage);
        }
        // The same context again: a snapshot of its end, or any longer state, leaves one token and the value.
        let (out, tokens) = ran(&model, || generate(&model, turn(2), &text(5)));
        assert!(tokens <= 1 + 5 + 31 && out.usage.reused_tokens >= 180, "{name}: {tokens}");
        // The conversation goes on after the value.
        let next = [turn(2), out.tokens.clone(), ids(77, 9)].concat();
        let (_, tokens) = ran(&model, || generate(&model, next, &text(1)));
        assert!(tokens <= 1 + 9 + 1, "{name}: {tokens} tokens ran for a further turn");
    }
}

#[test]
fn sessions_and_branches_share_too() {
    for name in [LLAMA, LFM2] {
        let model = cached(name, 64 << 20);
        let blocks = [Block::Tokens(ids(0, 128))];
        let append = || {
            let mut s = model.session(SessionOptions::default()).unwrap();
            s.append(&blocks).unwrap();
            s
        };
        let (first, all) = ran(&model, append);
        assert_eq!(all, 127);
        let (_, again) = ran(&model, append);
        assert_eq!(again, 0, "{name}");
        drop(first);
        let (_, after) = ran(&model, append);
        assert_eq!(after, 0, "{name}: the source may go");
        let request = text(2);
        let branches = [BranchRequest { blocks: &blocks, request: &request }; 3];
        let (_, tokens) = ran(&model, || {
            for g in model.generate_many(None, &branches).unwrap() {
                g.finish().unwrap();
            }
        });
        assert_eq!(tokens, 3 * 2, "{name}");
        let mut s = model.session(SessionOptions::default()).unwrap();
        let (reused, tokens) = ran(&model, || s.set_context(&blocks).unwrap());
        assert_eq!((reused, tokens), (127, 0), "{name}: set_context says what it reused");
    }
}

#[test]
fn the_budget_holds_and_the_least_recently_used_goes() {
    for name in [LLAMA, LFM2] {
        let model = cached(name, u64::MAX);
        let one = |from: u32| generate(&model, ids(from, 64), &text(1));
        one(1);
        let single = model.prefix_stats().bytes;
        assert!(single > 0);
        // Pages that entries share count once, and no more than all states together.
        generate(&model, [ids(1, 64), ids(9, 8)].concat(), &text(1));
        let two = model.prefix_stats();
        assert!(two.bytes < 2 * single, "{name}: {two:?} after {single}");
        assert!(two.bytes <= model.memory().state_bytes);
        assert_eq!(model.memory().prefix_cache_bytes, two.bytes);
        model.clear_prefix_cache();
        assert_eq!((model.prefix_stats().bytes, model.state_bytes()), (0, 0), "{name}");
        model.set_prefix_cache(single * 5 / 2);
        for from in [1, 2, 1, 3] {
            one(from);
            assert!(model.prefix_stats().bytes <= single * 5 / 2, "{name}");
        }
        assert!(model.prefix_stats().evictions > 0, "{name}");
        let (_, recent) = ran(&model, || one(1));
        let (_, old) = ran(&model, || one(2));
        assert!(recent < 40 && old >= 64, "{name}: {recent} and {old} tokens ran");
        model.set_prefix_cache(0);
        assert_eq!((model.prefix_stats().entries, model.state_bytes()), (0, 0), "{name}: off");
    }
}

#[test]
fn a_state_from_bytes_is_nobody_elses() {
    let model = cached(LLAMA, 64 << 20);
    let source = cached(LLAMA, 0);
    let mut s = source.session(SessionOptions::default()).unwrap();
    s.append(&[Block::Tokens(ids(0, 100))]).unwrap();
    let bytes = s.checkpoint().unwrap().to_bytes().unwrap();
    let mut imported = model.restore(&Checkpoint::from_bytes(&bytes).unwrap(), Restore::Exact).unwrap();
    imported.append(&[Block::Tokens(ids(5, 20))]).unwrap();
    imported.generate(&text(3)).unwrap().finish().unwrap();
    drop(imported.fork().unwrap().checkpoint().unwrap());
    assert_eq!(model.prefix_stats().entries, 0, "its bytes could say anything");
}
