//! Replies that call tools, and how sure a model says it was, out of loaded models.

mod common;

use common::{load, models, session, LFM2, LLAMA};
use lean_engine::{
    Block, CancelToken, Candidate, Checkpoint, Confidence, Error, Event, Finish, Reply, Request, Restore,
    Session, ToolChoice, ToolSyntax, Tools, Type,
};
use serde_json::json;

fn weather() -> serde_json::Value {
    json!({"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["c", "f"]}},
        "required": ["city", "unit"]
    }}})
}

fn tools(choice: ToolChoice) -> Tools {
    Tools { choice, ..Tools::new(vec![weather(), json!({"name": "now"})]) }
}

#[test]
fn a_forced_tool_is_called_whatever_the_model_prefers() {
    for name in models() {
        let model = load(&name);
        let mut s = session(&model);
        s.append(&[Block::text("What is the weather in Oslo?")]).unwrap();
        let ty = Type::tools(tools(ToolChoice::Tool("get_weather".into()))).unwrap();
        let out = s.generate(&Request::new(ty).max_tokens(80)).unwrap().finish().unwrap();
        let reply = Reply::from_value(&out.value).unwrap();
        assert_eq!(out.finish, Finish::Complete, "{name}");
        assert_eq!(
            (reply.calls.len(), reply.calls[0].name.as_str()),
            (1, "get_weather"),
            "{name}: {}",
            out.text
        );
        assert!(reply.calls[0].arguments["city"].is_string(), "{name}: {}", out.text);
        let marker = match model.tool_syntax() {
            ToolSyntax::Hermes => "<tool_call>",
            ToolSyntax::Pythonic => "<|tool_call_start|>[",
            _ => "{\"name\": \"",
        };
        assert!(out.text.starts_with(marker), "{name}: {}", out.text);
        assert_eq!(s.model().decode(&out.tokens, true), out.text, "{name}");
    }
}

#[test]
fn a_reply_that_calls_nothing_is_text() {
    let model = load(LLAMA);
    let ty = Type::tools(tools(ToolChoice::Auto)).unwrap();
    for seed in 0..10 {
        let request = Request::new(ty.clone()).max_tokens(12).sample(1.0, seed);
        let mut s = session(&model);
        s.append(&[Block::text("Hello")]).unwrap();
        let out = s.generate(&request).unwrap().finish().unwrap();
        let reply = Reply::from_value(&out.value).unwrap();
        // No call fits into so few tokens.
        assert_eq!((reply.text.as_str(), reply.calls.len()), (out.text.as_str(), 0));
        assert!(out.tokens.len() < 12 || out.finish == Finish::Length, "{:?}", out.finish);
    }
    let forced = Type::tools(tools(ToolChoice::Required)).unwrap();
    let refused = session(&model).generate(&Request::new(forced).max_tokens(3)).err();
    assert!(matches!(refused, Some(Error::BudgetTooSmall { needed }) if needed > 3), "{refused:?}");
}

#[test]
fn a_call_goes_on_from_a_checkpoint() {
    let model = load(LFM2);
    let ty = Type::tools(tools(ToolChoice::Required)).unwrap();
    let request = Request::new(ty).max_tokens(60).sample(1.0, 3);
    let whole = session(&model).generate(&request).unwrap().finish().unwrap();
    let mut s = session(&model);
    let mut generation = s.generate(&request).unwrap();
    for _ in 0..9 {
        generation.next().unwrap();
    }
    let bytes = generation.checkpoint().unwrap().to_bytes().unwrap();
    drop(generation);
    let mut back = model.restore(&Checkpoint::from_bytes(&bytes).unwrap(), Restore::Exact).unwrap();
    let rest = back.resume(CancelToken::new()).unwrap().finish().unwrap();
    assert_eq!((rest.text, rest.value), (whole.text, whole.value));
}

fn start(name: &str) -> Session {
    let mut s = session(&load(name));
    s.append(&[Block::text("A report: the button does nothing.\n")]).unwrap();
    s
}

fn sure(mut request: Request) -> Request {
    request.options.confidence = true;
    request
}

fn ticket() -> Type {
    Type::expr(r#"{"kind": "'bug' | 'feature' | 'question'", "urgent": "boolean", "stars": "1 <= number.integer <= 5", "title": "string <= 20"}"#)
        .unwrap()
}

#[test]
fn confidence_is_what_the_logits_say() {
    for name in [LLAMA, LFM2] {
        for seed in 0..3 {
            let request = sure(Request::new(ticket()).max_tokens(80).sample(1.0, seed));
            let out = start(name).generate(&request).unwrap().finish().unwrap();
            let confidence = out.confidence.clone().unwrap();
            assert_matches_logits(&mut start(name), &out.tokens, &confidence);
            let paths: Vec<&str> = confidence.leaves.iter().map(|l| l.path.as_str()).collect();
            assert_eq!(paths, ["/kind", "/urgent", "/stars", "/title"]);
            for (leaf, n) in confidence.leaves.iter().zip([3, 2, 5, 0]) {
                assert_eq!(leaf.alternatives.len(), n, "{}", leaf.path);
                let sum: f64 = leaf.alternatives.iter().map(|a| a.probability).sum();
                assert!(n == 0 || (sum - 1.0).abs() < 1e-6, "{}: {sum}", leaf.path);
                let own = out.value.pointer(&leaf.path).unwrap();
                let listed = leaf.alternatives.iter().find(|a| a.value == *own);
                assert!(n == 0 || listed.is_some_and(|a| a.probability > 0.0), "{}", leaf.path);
                // What the leaf's own tokens had is at most what all ways of writing it have.
                if let Some(a) = listed {
                    assert!(leaf.logprob <= a.probability.ln() + 1e-4, "{}: {leaf:?}", leaf.path);
                }
            }
        }
    }
}

/// Each token's logarithm under the masked softmax of logits that are computed one by one.
fn assert_matches_logits(s: &mut Session, tokens: &[u32], confidence: &Confidence) {
    let mut matcher = s.model().matcher(&ticket()).unwrap().unwrap();
    let mut sum = 0.0;
    let mut forced = Vec::new();
    let last = *s.tokens().last().unwrap();
    let end = s.tokens().len() - 1;
    s.truncate(end).unwrap();
    let mut next = last;
    for &id in tokens {
        let logits = s.forward(&[next]).unwrap();
        if forced.is_empty() {
            forced = matcher.forced().unwrap();
        }
        if forced.first() == Some(&id) {
            forced.remove(0);
        } else {
            let mask = matcher.mask().unwrap();
            let allowed =
                (0..logits.len()).filter(|&i| mask.allows(i as u32)).map(|i| f64::from(logits[i]).exp());
            sum += f64::from(logits[id as usize]) - allowed.sum::<f64>().ln();
        }
        matcher.consume(id).unwrap();
        next = id;
    }
    assert!((confidence.logprob - sum).abs() < 1e-3, "{} and {sum}", confidence.logprob);
    let leaves: f64 = confidence.leaves.iter().map(|l| l.logprob).sum();
    assert!(leaves >= confidence.logprob - 1e-9 && leaves <= 0.0, "{leaves}");
}

#[test]
fn candidates_are_the_likeliest_of_all_and_say_what_the_type_allows() {
    for name in [LLAMA, LFM2] {
        let mut request = Request::new(ticket()).max_tokens(80).sample(1.0, 5);
        request.options.candidates = 4;
        let mut s = start(name);
        let mut events = Vec::new();
        let mut generation = s.generate(&request).unwrap();
        while let Some(event) = generation.next().unwrap() {
            events.push(event);
        }
        let out = generation.finish().unwrap();
        let mut again = start(name);
        let last = *again.tokens().last().unwrap();
        let end = again.tokens().len() - 1;
        again.truncate(end).unwrap();
        let (mut next, mut seen, mut refused) = (last, None, 0);
        for event in events {
            match event {
                Event::Candidates { candidates } => seen = Some(candidates),
                Event::Token { id, forced, .. } => {
                    let logits = again.forward(&[next]).unwrap();
                    assert_eq!(
                        seen.is_none(),
                        forced,
                        "{name}: forced tokens have no candidates, others have"
                    );
                    if let Some(candidates) = seen.take() {
                        refused += candidates.iter().filter(|c| !c.allowed).count();
                        assert_likeliest(&candidates, &logits, id);
                    }
                    next = id;
                }
                _ => {}
            }
        }
        assert_eq!(next, *out.tokens.last().unwrap());
        assert!(refused > 0, "{name}: a random model does not keep to the type by itself");
    }
    let mut many = Request::new(ticket());
    many.options.candidates = 65;
    assert!(matches!(start(LLAMA).generate(&many).err(), Some(Error::InvalidArgument { .. })));
}

fn assert_likeliest(candidates: &[Candidate], logits: &[f32], taken: u32) {
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    let ids: Vec<u32> = candidates.iter().map(|c| c.id).collect();
    assert_eq!(ids[..4], order[..4]);
    assert!(ids.len() == 4 || ids[4..] == [taken], "{ids:?} and {taken}");
    let own = candidates.iter().find(|c| c.id == taken).expect("the token itself");
    assert!(own.allowed, "{own:?}");
    for c in candidates {
        let p = f64::from(logits[c.id as usize]).exp() / sum;
        assert!((c.probability - p).abs() < 1e-4, "{c:?} and {p}");
    }
}

#[test]
fn confidence_survives_a_checkpoint_and_is_absent_unless_asked_for() {
    let request = sure(Request::new(ticket()).max_tokens(80).sample(1.0, 5));
    let whole = start(LLAMA).generate(&request).unwrap().finish().unwrap();
    let mut s = start(LLAMA);
    let mut generation = s.generate(&request).unwrap();
    for _ in 0..8 {
        generation.next().unwrap();
    }
    let checkpoint = generation.checkpoint().unwrap();
    drop(generation);
    let mut back = s.model().restore(&checkpoint, Restore::Exact).unwrap();
    let rest = back.resume(CancelToken::new()).unwrap().finish().unwrap();
    assert_eq!(rest.confidence, whole.confidence);
    let plain = start(LLAMA)
        .generate(&Request::new(ticket()).max_tokens(80).sample(1.0, 5))
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!((plain.confidence, plain.text), (None, whole.text));
}

#[test]
fn a_choice_of_labels_is_a_classification() {
    let labels = ["positive", "negative", "neutral"];
    let request = sure(Request::new(Type::choice(labels).unwrap()).max_tokens(8));
    let out = start(LLAMA).generate(&request).unwrap().finish().unwrap();
    let confidence = out.confidence.unwrap();
    let [leaf] = confidence.leaves.as_slice() else { panic!("{confidence:?}") };
    assert_eq!(leaf.alternatives.len(), 3);
    assert!((leaf.alternatives.iter().map(|a| a.probability).sum::<f64>() - 1.0).abs() < 1e-6);
    assert!(leaf.alternatives[0].probability >= leaf.alternatives[2].probability);
    assert!(labels.contains(&out.text.as_str()));
}
