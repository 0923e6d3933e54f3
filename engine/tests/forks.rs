//! Forks share everything, and cutting says what it cannot do.

mod common;

use common::{load_with, models, LFM2, LLAMA};
use lean_engine::{Block, Error, LoadOptions, Model, Session, SessionOptions};

/// Without kept prefixes, so that all state belongs to the sessions that the test has.
fn load(name: &str) -> Model {
    load_with(name, LoadOptions { threads: 2, prefix_cache: Some(0), ..Default::default() })
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (i * 37) % 200).collect()
}

fn session(model: &Model, tokens: usize) -> Session {
    let mut s = model.session(SessionOptions::default()).unwrap();
    s.forward(&ids(tokens)).unwrap();
    s
}

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_fork_of_a_long_session_copies_no_page() {
    for name in models() {
        let model = load(&name);
        let length = 4096.min(model.info().context_length - 40);
        let source = session(&model, length - 5);
        let (bytes, copied, ran) = (model.state_bytes(), model.pages_copied(), model.stats());
        // Forks of forks, and checkpoints.
        let mut chain: Vec<Session> = vec![source.fork().unwrap()];
        for _ in 0..7 {
            let next = chain.last().unwrap().fork().unwrap();
            chain.push(next);
        }
        let checkpoint = source.checkpoint().unwrap();
        assert_eq!(
            (model.state_bytes(), model.pages_copied(), model.stats()),
            (bytes, copied, ran),
            "{name}"
        );
        // They outlive their source.
        drop(source);
        drop(chain.remove(0));
        let mut last = Vec::new();
        for (i, fork) in chain.iter_mut().enumerate() {
            let before = model.pages_copied();
            last.push(bits(fork.forward(&[9]).unwrap()));
            let first_write = model.pages_copied() - before;
            fork.forward(&[7]).unwrap();
            assert!(first_write <= 1, "{name}: fork {i} copied {first_write} pages");
            assert_eq!(model.pages_copied() - before, first_write, "{name}: only the first write copies");
        }
        assert!(last.windows(2).all(|w| w[0] == w[1]), "{name}: forks say the same");
        // A partial page and windows each, whatever the length.
        let info = model.info();
        let page = info.state_bytes_per_token * 32;
        assert!(model.state_bytes() <= bytes + 7 * 2 * page, "{name}");
        drop(chain);
        drop(checkpoint);
        assert_eq!(model.state_bytes(), 0, "{name}: nothing is left behind");
    }
}

#[test]
fn dropping_a_range_is_the_session_without_it() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let all = ids(120);
        for range in [0..1, 0..40, 10..11, 40..100, 31..64, 119..120, 60..120, 50..50] {
            let mut s = session(&model, 120);
            let ran = s.drop_range(range.clone()).unwrap();
            let rest = [&all[..range.start], &all[range.end..]].concat();
            assert_eq!(s.tokens(), rest, "{name}: {range:?}");
            assert!(ran <= rest.len() - range.start.min(rest.len()) + 31, "{name}: {range:?} ran {ran}");
            let mut fresh = model.session(SessionOptions::default()).unwrap();
            let want = bits(fresh.forward(&[rest, vec![9]].concat()).unwrap());
            assert_eq!(bits(s.forward(&[9]).unwrap()), want, "{name}: {range:?}");
        }
        let mut s = session(&model, 50);
        assert_eq!(s.drop_range(0..50), Ok(0));
        assert_eq!(s.tokens(), [] as [u32; 0], "{name}: an empty session");
        s.append(&[Block::Tokens(ids(5))]).unwrap();
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // What a caller may pass.
fn a_cut_out_of_range_says_how_many_tokens_there_are_and_changes_nothing() {
    let model = load(LLAMA);
    let mut s = session(&model, 50);
    let before = model.stats();
    for range in [40..51, 51..60, 50..51, 30..20, 0..usize::MAX] {
        match s.drop_range(range.clone()) {
            Err(Error::InvalidArgument { what, reason }) => {
                assert_eq!(what, "range");
                assert!(reason.contains("50 tokens") && reason.contains(&format!("{range:?}")), "{reason}");
            }
            other => panic!("{range:?}: {other:?}"),
        }
    }
    match s.truncate(51) {
        Err(Error::InvalidArgument { reason, .. }) => assert!(reason.contains("50 tokens"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!((s.tokens(), model.stats()), (ids(50).as_slice(), before));
}
