//! Sessions: calls are transactions, prefixes are reused, and results do not depend on how work was cut.

mod common;

use common::{load, load_with, sampled, session, LFM2, LLAMA};
use lean_engine::{
    Block, CancelToken, Checkpoint, Context, Error, Event, Finish, LoadOptions, Model, Request, Restore,
    Session, SessionOptions, Type, TypeSource,
};

fn text(max_tokens: usize) -> Request {
    Request::new(Type::from_source(TypeSource::Text { max_chars: None }).unwrap()).max_tokens(max_tokens)
}

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

/// Token ids that mean nothing, the same ones every time.
fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 30 + (i * 37) % 900).collect()
}

#[test]
fn logits_do_not_depend_on_chunks_threads_or_reuse() {
    for name in [LLAMA, LFM2] {
        let ids = ids(150);
        let whole = bits(session(&load(name)).forward(&ids).unwrap());
        for threads in [1, 2, 3] {
            let model = load_with(name, LoadOptions { threads, ..Default::default() });
            for chunk in [1, 7, 32, 33, 64, 149] {
                let mut s = session(&model);
                let mut last = Vec::new();
                for part in ids.chunks(chunk) {
                    last = s.forward(part).unwrap();
                }
                assert_eq!(bits(last), whole, "{name}: chunks of {chunk}, {threads} threads");
            }
            let mut s = session(&model);
            let mut other = ids.clone();
            other[100] += 1;
            s.set_context(&[Block::Tokens(other)]).unwrap();
            let reused = s.set_context(&[Block::Tokens(ids[..149].to_vec())]).unwrap();
            assert!((96..=100).contains(&reused), "{name}: {reused} tokens were reused");
            assert_eq!(bits(s.forward(&ids[149..]).unwrap()), whole, "{name}: reused prefix");
        }
    }
}

#[test]
fn the_memory_estimate_is_what_a_session_takes() {
    for name in [LLAMA, LFM2] {
        let model = load_with(name, LoadOptions { prefix_cache: Some(0), ..Default::default() });
        let info = model.info();
        let logits = info.vocab_size as u64 * 4;
        assert_eq!(info.max_memory_bytes, info.memory_bytes(info.context_length), "{name}");
        assert_eq!(info.memory_bytes(0), info.weight_bytes + info.state_bytes_fixed + logits, "{name}");
        for tokens in [1, 31, 32, 33, 150] {
            let mut s = session(&model);
            s.forward(&ids(tokens)).unwrap();
            let memory = model.memory();
            let taken = memory.weight_bytes + memory.state_bytes + logits;
            assert_eq!(info.memory_bytes(tokens), taken, "{name}: {tokens} tokens");
        }
    }
}

#[test]
fn truncating_and_forking_leave_the_rest_exact() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let ids = ids(80);
        let want = bits(session(&model).forward(&ids).unwrap());
        let mut s = session(&model);
        s.forward(&ids[..70]).unwrap();
        let mut fork = s.fork().unwrap();
        s.forward(&[7, 8, 9]).unwrap();
        s.truncate(50).unwrap();
        assert_eq!(bits(s.forward(&ids[50..]).unwrap()), want, "{name}: after truncation");
        assert_eq!(bits(fork.forward(&ids[70..]).unwrap()), want, "{name}: in the fork");
    }
}

#[test]
fn forks_share_their_pages() {
    let model = load_with(LLAMA, LoadOptions { prefix_cache: Some(0), ..Default::default() });
    let mut s = session(&model);
    s.forward(&ids(320)).unwrap();
    let before = model.state_bytes();
    let forks: Vec<Session> = (0..8).map(|_| s.fork().unwrap()).collect();
    assert_eq!(model.state_bytes(), before, "a fork copies nothing");
    drop(forks);
    drop(s);
    assert_eq!(model.state_bytes(), 0);
}

#[test]
fn an_overflow_changes_nothing_and_carries_its_numbers() {
    let model = load(LLAMA);
    let mut s = model.session(SessionOptions { context: Some(40) }).unwrap();
    s.append(&[Block::Tokens(ids(30))]).unwrap();
    let before = s.tokens().to_vec();
    match s.append(&[Block::Tokens(ids(11))]) {
        Err(Error::ContextOverflow { needed: 41, available: 40 }) => {}
        other => panic!("{other:?}"),
    }
    match s.generate(&text(11)).map(|_| ()) {
        Err(Error::ContextOverflow { needed: 41, available: 40 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(s.tokens(), before);
    let out = s.generate(&text(10)).unwrap().finish().unwrap();
    assert!(out.tokens.len() <= 10);
    assert!(model.session(SessionOptions { context: Some(1 << 30) }).is_err());
}

#[test]
fn a_cancelled_or_dropped_generation_leaves_the_session_as_it_was() {
    for name in [LLAMA, LFM2] {
        let model = load(name);
        let prepared = |s: &mut Session| s.append(&[Block::Tokens(ids(45))]).unwrap();
        let mut s = session(&model);
        prepared(&mut s);
        let before = s.tokens().to_vec();

        let request = text(40);
        let mut g = s.generate(&request).unwrap();
        for _ in 0..5 {
            g.next().unwrap();
        }
        request.cancel.cancel();
        assert_eq!(g.next(), Err(Error::Cancelled));
        assert_eq!(g.next(), Err(Error::Cancelled), "the error stays");
        drop(g);
        assert_eq!(s.tokens(), before);

        let mut g = s.generate(&text(40)).unwrap();
        g.next().unwrap();
        drop(g);
        assert_eq!(s.tokens(), before);

        let cancelled = CancelToken::new();
        cancelled.cancel();
        assert_eq!(s.append_with(&[Block::text("more")], &cancelled, |_, _| {}), Err(Error::Cancelled));
        assert_eq!(s.tokens(), before);

        let mut fresh = session(&model);
        prepared(&mut fresh);
        let want = fresh.generate(&text(20)).unwrap().finish().unwrap();
        let got = s.generate(&text(20)).unwrap().finish().unwrap();
        assert_eq!(got.tokens, want.tokens, "{name}");
        assert_eq!(s.tokens(), fresh.tokens());
    }
}

#[test]
fn a_prefill_is_cancelled_in_the_middle() {
    let model = load(LLAMA);
    let mut s = session(&model);
    let cancel = CancelToken::new();
    let at = cancel.clone();
    let mut steps = 0;
    let result = s.append_with(&[Block::Tokens(ids(400))], &cancel, |_, _| {
        steps += 1;
        at.cancel();
    });
    assert_eq!(result, Err(Error::Cancelled));
    assert_eq!(steps, 1, "nothing runs after the cancellation");
    assert!(s.tokens().is_empty());
}

#[test]
fn keep_partial_keeps_what_was_generated() {
    let model = load(LLAMA);
    let mut s = session(&model);
    s.append(&[Block::Tokens(ids(20))]).unwrap();
    let mut request = text(40);
    request.options.keep_partial = true;
    let mut g = s.generate(&request).unwrap();
    let mut got = Vec::new();
    while got.len() < 4 {
        if let Some(Event::Token { id, .. }) = g.next().unwrap() {
            got.push(id);
        }
    }
    request.cancel.cancel();
    assert_eq!(g.next(), Err(Error::Cancelled));
    drop(g);
    assert_eq!(s.tokens()[20..], got);
}

#[test]
fn text_ends_at_its_budget_or_before_a_stop_string() {
    let model = load(LLAMA);
    let run = |request: &Request| {
        let mut s = session(&model);
        s.append(&[Block::text("Hello")]).unwrap();
        let mut g = s.generate(request).unwrap();
        let mut streamed = String::new();
        while let Some(event) = g.next().unwrap() {
            if let Event::Token { text, .. } | Event::Text { text } = event {
                streamed.push_str(&text);
            }
        }
        let out = g.finish().unwrap();
        assert_eq!(streamed, out.text, "events carry exactly the text");
        (out, s)
    };
    let (plain, _) = run(&text(24));
    assert_eq!(plain.finish, Finish::Length);
    assert_eq!(plain.tokens.len(), 24);
    // Any few characters from its middle are a stop string that must be met.
    let stop: String = plain.text.chars().skip(plain.text.chars().count() / 2).take(3).collect();
    let mut request = text(24);
    request.options.stop = vec![stop.clone()];
    let (stopped, s) = run(&request);
    assert_eq!(stopped.finish, Finish::Stop);
    assert_eq!(stopped.text, plain.text[..plain.text.find(&stop).unwrap()]);
    assert!(s.tokens().ends_with(&stopped.tokens));
    // The session goes on from the cut.
    let mut s = s;
    s.generate(&text(4)).unwrap().finish().unwrap();
}

#[test]
fn values_parse_within_any_budget_that_holds_them() {
    let model = load(LLAMA);
    let ty = r#"{"id": "number.integer", "name": "string < 10", "kind": "'bug' | 'feature'"}"#;
    for seed in 0..10 {
        let mut s = session(&model);
        s.append(&[Block::text("A user:")]).unwrap();
        let out = s.generate(&sampled(ty, seed)).unwrap().finish().unwrap();
        assert!(out.value["id"].is_i64() || out.value["id"].is_u64(), "{}", out.text);
        assert!(["bug", "feature"].contains(&out.value["kind"].as_str().unwrap()));
        assert!(out.usage.forced_tokens > 0, "keys are forced");
        assert_eq!(out.usage.generated_tokens(), out.tokens.len());
        assert!(out.usage.passes < out.tokens.len() + 2, "forced tokens share passes");
        let again = model
            .generate(Context { checkpoint: None, blocks: &[Block::text("A user:")] }, &sampled(ty, seed));
        assert_eq!(again.unwrap().text, out.text, "same request, same bytes");
    }
    let mut s = session(&model);
    s.append(&[Block::text("A user:")]).unwrap();
    let before = s.tokens().to_vec();
    let needed = match s.generate(&sampled(ty, 1).max_tokens(5)).map(|_| ()) {
        Err(Error::BudgetTooSmall { needed }) => needed,
        other => panic!("{other:?}"),
    };
    assert_eq!(s.tokens(), before);
    for budget in needed..needed + 12 {
        let mut s = s.fork().unwrap();
        let out = s.generate(&sampled(ty, budget as u64).max_tokens(budget)).unwrap().finish().unwrap();
        assert!(out.tokens.len() <= budget, "{} tokens of {budget}: {}", out.tokens.len(), out.text);
        assert!(out.value["id"].is_number() && out.finish == Finish::Complete, "{}", out.text);
    }
}

#[test]
fn partial_values_parse_and_grow_into_the_value() {
    let model = load(LLAMA);
    let mut request = sampled(r#"{"a": "string < 12", "n": "number", "c": "(string < 4)[] == 2"}"#, 5);
    let mut s = session(&model);
    s.append(&[Block::text("A user:")]).unwrap();
    request.options.partials = true;
    let mut g = s.generate(&request).unwrap();
    let (mut last, mut paths, mut seen) = (String::new(), Vec::new(), 0);
    while let Some(event) = g.next().unwrap() {
        if let Event::Partial { path, json, final_bytes } = event {
            serde_json::from_str::<serde_json::Value>(&json).unwrap_or_else(|e| panic!("{json}: {e}"));
            assert!(final_bytes >= seen && g.partial().unwrap().starts_with(&json[..final_bytes]), "{json}");
            (last, seen) = (json, final_bytes);
            paths.push(path);
        }
    }
    let out = g.finish().unwrap();
    assert_eq!((&last, seen), (&out.text, out.text.len()));
    for path in ["/a", "/n", "/c/1", ""] {
        assert!(paths.iter().any(|p| p == path), "{path} is not in {paths:?}");
    }
    assert!(out.usage.saved_passes > 0 && out.usage.saved_passes <= out.usage.forced_tokens);
    assert!(out.usage.passes + out.usage.saved_passes >= out.tokens.len());
}

#[test]
fn a_steered_value_goes_on_from_any_point() {
    let model = load(LLAMA);
    let request = sampled(r#"{"a": "string", "b": "'one' | 'two'", "c": "string[] >= 2"}"#, 3).max_tokens(32);
    let mut s = session(&model);
    s.append(&[Block::text("A user:")]).unwrap();
    let mut whole = Vec::new();
    let mut fork = s.fork().unwrap();
    let mut g = fork.generate(&request).unwrap();
    while let Some(event) = g.next().unwrap() {
        whole.push(event);
    }
    let out = g.finish().unwrap();
    assert!(out.tokens.len() <= 32, "{}", out.text);
    for calls in 0..whole.len() {
        let mut fork = s.fork().unwrap();
        let mut g = fork.generate(&request).unwrap();
        for _ in 0..calls {
            g.next().unwrap();
        }
        let bytes = g.checkpoint().unwrap().to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        let mut restored = model.restore(&checkpoint, Restore::Exact).unwrap();
        let resumed = restored.resume(CancelToken::new()).unwrap().finish().unwrap();
        assert_eq!(resumed.text, out.text, "after {calls} calls");
    }
}

#[test]
fn the_context_is_a_budget_too() {
    let model = load(LLAMA);
    let ty = r#"{"id": "number.integer", "name": "string", "tags": "string[]"}"#;
    let open = |context: usize| {
        let mut s = model.session(SessionOptions { context: Some(context) }).unwrap();
        s.append(&[Block::Tokens(ids(10))]).unwrap();
        s
    };
    let tokens = open(200).tokens().len();
    let needed = match open(tokens + 2).generate(&sampled(ty, 1)).map(|_| ()) {
        Err(Error::ContextOverflow { needed, available }) => {
            assert_eq!(available, tokens + 2);
            needed
        }
        other => panic!("{other:?}"),
    };
    for context in needed..needed + 8 {
        let mut s = open(context);
        let out = s.generate(&sampled(ty, context as u64)).unwrap().finish().unwrap();
        assert!(s.tokens().len() <= context, "{}", out.text);
    }
}

#[test]
fn an_empty_context_is_bos_and_chat_comes_first() {
    let model = load(LFM2);
    let mut s = session(&model);
    s.generate(&text(2)).unwrap().finish().unwrap();
    assert_eq!(s.tokens()[0], model.info().bos.unwrap());
    match s.append(&[Block::chat(&[("user", "hi")])]) {
        Err(Error::InvalidArgument { what, .. }) => assert_eq!(what, "chat"),
        other => panic!("{other:?}"),
    }
    match s.append(&[Block::Tokens(vec![1 << 20])]) {
        Err(Error::InvalidArgument { what, .. }) => assert_eq!(what, "tokens"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sessions_on_two_threads_give_what_they_give_alone() {
    let model = load(LLAMA);
    let run = |model: &Model, seed: u64| {
        let mut s = session(model);
        s.append(&[Block::Tokens(ids(40 + seed as usize * 13))]).unwrap();
        s.generate(&sampled(r#"{"a": "string < 40", "b": "number"}"#, seed)).unwrap().finish().unwrap().tokens
    };
    let alone: Vec<_> = (0..4).map(|seed| run(&model, seed)).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let model = &model;
                    move || run(model, seed)
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn errors_name_what_is_wrong() {
    let missing = Model::load("no/such/model.gguf", LoadOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(missing.code(), 200);
    assert!(missing.to_string().contains("no/such/model.gguf"));
    let model = load(LLAMA);
    let mut s = session(&model);
    s.append(&[Block::text("x")]).unwrap();
    for (change, what) in
        [("temperature", "temperature"), ("top_p", "top_p"), ("max_tokens", "max_tokens"), ("stop", "stop")]
    {
        let mut request = sampled(r#"{"a": "string < 4"}"#, 0);
        match change {
            "temperature" => request.options.temperature = f32::NAN,
            "top_p" => request.options.top_p = 2.0,
            "max_tokens" => request.options.max_tokens = Some(0),
            _ => request.options.stop = vec!["x".into()],
        }
        match s.generate(&request).map(|_| ()) {
            Err(Error::InvalidArgument { what: got, .. }) => assert_eq!(got, what),
            other => panic!("{change}: {other:?}"),
        }
    }
}
