//! Choosing tokens: on the device and on the host, masked, pipelined.

use crate::common::*;
use lean_engine::backend::{sample, Backend, Input, Logits, Mask, SamplerParams, Selection};

/// What the host's sampler makes of the logits after `prompt`.
fn expected(logits: &[f32], selection: Selection<'_>) -> u32 {
    sample(&mut logits.to_vec(), &selection).unwrap()
}

#[test]
fn every_selection_equals_the_hosts_and_can_be_fed_forward() {
    let Some(backend) = load(LLAMA) else { return };
    let prompt = ids(20, 1);
    let logits = run(&backend, backend.new_state().unwrap(), &prompt);
    let vocab = logits.len();
    let mut sparse = Mask { words: vec![0; vocab.div_ceil(32)] };
    for id in [7u32, 500, 901] {
        sparse.words[id as usize / 32] |= 1 << (id % 32);
    }
    let half =
        Mask { words: (0..vocab.div_ceil(32)).map(|w| if w % 2 == 0 { u32::MAX } else { 0 }).collect() };
    // A short mask allows nothing beyond its end.
    let short = Mask { words: vec![0, 1 << 3] };
    let greedy = SamplerParams::default();
    let penalty = SamplerParams { repetition_penalty: 1.5, ..Default::default() };
    let warm = SamplerParams { temperature: 0.9, top_k: 40, top_p: 0.95, min_p: 0.01, ..Default::default() };
    let history = &prompt[..];
    let best = expected(&logits, Selection { params: &greedy, history, random: 0, mask: None });
    let cases = [
        ("greedy", Selection { params: &greedy, history, random: 0, mask: None }),
        ("sparse mask", Selection { params: &greedy, history, random: 0, mask: Some(&sparse) }),
        ("half mask", Selection { params: &greedy, history, random: 0, mask: Some(&half) }),
        ("short mask", Selection { params: &greedy, history, random: 0, mask: Some(&short) }),
        ("penalty", Selection { params: &penalty, history: &[best], random: 0, mask: None }),
        ("temperature", Selection { params: &warm, history, random: 3_000_000_000, mask: None }),
        (
            "temperature and mask",
            Selection { params: &warm, history, random: 1_000_000_000, mask: Some(&half) },
        ),
    ];
    for (name, selection) in cases {
        let want = expected(&logits, selection);
        let state = backend.new_state().unwrap();
        let first = submit(&backend, state, Input::Tokens(prompt.clone()), Logits::Last { read: false });
        backend.select(first, 0, selection).unwrap();
        let next = submit(&backend, state, Input::Sampled(first, 0), Logits::Last { read: true });
        let continued = wait(&backend, next, 0).unwrap().logits.unwrap();
        assert_eq!(wait(&backend, first, 0).unwrap().token, Some(want), "{name}");
        let fresh = backend.new_state().unwrap();
        run(&backend, fresh, &prompt);
        assert_eq!(bits(&continued), bits(&run(&backend, fresh, &[want])), "{name}: fed forward");
    }
}

#[test]
fn a_mask_that_allows_nothing_is_an_error_not_a_token() {
    let Some(backend) = load(LLAMA) else { return };
    let empty = Mask { words: vec![0; 32] };
    for temperature in [0.0, 1.0] {
        let params = SamplerParams { temperature, ..Default::default() };
        let state = backend.new_state().unwrap();
        let ticket = submit(&backend, state, Input::Tokens(vec![5]), Logits::Last { read: false });
        let selection = Selection { params: &params, history: &[], random: 0, mask: Some(&empty) };
        backend.select(ticket, 0, selection).unwrap();
        let error = wait(&backend, ticket, 0).unwrap_err();
        assert!(error.to_string().contains("allows no token"), "{error}");
        // The state is whole: the pass itself ran.
        assert_eq!(backend.len(state).unwrap(), 1);
        run(&backend, state, &[6]);
    }
}

#[test]
fn logits_of_all_positions_and_a_selection_come_together() {
    let Some(backend) = load(LLAMA) else { return };
    let prompt = ids(9, 2);
    let state = backend.new_state().unwrap();
    let ticket = submit(&backend, state, Input::Tokens(prompt.clone()), Logits::All);
    let params = SamplerParams::default();
    backend.select(ticket, 0, greedy(&params)).unwrap();
    let output = wait(&backend, ticket, 0).unwrap();
    let all = output.logits.unwrap();
    let last = &all[all.len() / 9 * 8..];
    assert_eq!(output.token, Some(expected(last, greedy(&params))));
    assert_eq!(bits(last), bits(&run(&backend, backend.new_state().unwrap(), &prompt)));
}
