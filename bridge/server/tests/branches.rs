//! Generations that start together, the counts that show it, and cutting sessions.

mod common;

use common::{read, text, Client};
use lean_protocol::messages as m;
use lean_protocol::{Class, Message};
use serde_json::{json, Value};

fn member(model: u32, members: u32) -> m::GenerateBranch {
    m::GenerateBranch { group: 5, members, model: Some(model), events: true, ..Default::default() }
}

fn document(blocks: Value, options: Value) -> Vec<u8> {
    json!({ "blocks": blocks, "type": { "text": { "max_chars": null } }, "options": options })
        .to_string()
        .into()
}

#[test]
fn members_start_when_all_have_arrived_and_each_is_a_request_of_its_own() {
    let c = Client::new(100);
    let model = c.load("echo");
    for (id, words) in [(1, "one two"), (2, "three"), (3, "four five six")] {
        c.nothing();
        c.send(id, member(model, 3), &document(json!([{ "text": words }]), json!({})));
    }
    let mut texts = vec![Vec::new(); 3];
    let mut ended = 0;
    while ended < 3 {
        let frame = c.next();
        let ends = frame.kind == m::Generated::KIND;
        ended += usize::from(ends);
        texts[frame.request as usize - 1].push(frame);
    }
    let said: Vec<String> = texts.iter().map(|frames| text(frames)).collect();
    assert_eq!(said, ["one two", "three", "four five six"]);
    // The group's number is free again.
    c.send(4, member(model, 1), &document(json!([{ "text": "alone" }]), json!({})));
    assert_eq!(text(&c.until_end(4)), "alone");
}

#[test]
fn a_member_that_is_cancelled_while_the_others_start_ends_alone() {
    let c = Client::new(100);
    let model = c.load("echo?step_ms=60");
    for id in 1..=3 {
        c.send(id, member(model, 3), &document(json!([{ "text": "one two three four" }]), json!({})));
    }
    c.nothing();
    c.send(1, m::Cancel {}, b"");
    let mut said = vec![String::new(); 3];
    let mut ended = 0;
    while ended < 3 {
        let frame = c.next();
        let who = frame.request as usize - 1;
        if frame.kind == m::Failed::KIND {
            said[who] = format!("error {}", read::<m::Failed>(&frame).code);
            ended += 1;
        } else if frame.kind == m::Generated::KIND {
            ended += 1;
        } else {
            said[who].push_str(&text(std::slice::from_ref(&frame)));
        }
    }
    assert_eq!(said, ["error 500", "one two three four", "one two three four"]);
}

#[test]
fn nobody_waits_for_a_member_that_cannot_come() {
    let c = Client::new(100);
    let model = c.load("echo");
    let good = document(json!([{ "text": "words" }]), json!({}));
    let failed = |id: u32| read::<m::Failed>(&c.until_end(id).pop().unwrap()).code;
    // Refused before it joins, first, in the middle and last.
    let bad = br#"{"blocks":[],"tipe":1}"#.as_slice();
    for documents in [[bad, &good, &good], [&good, bad, &good], [&good, &good, bad]] {
        for (id, document) in (1..).zip(documents) {
            c.send(id, member(model, 3), document);
        }
        let mut codes: Vec<u32> = (0..3).map(|_| read::<m::Failed>(&c.next()).code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [100; 3]);
    }
    // Cancelled, and the others come only then.
    c.send(1, member(model, 3), &good);
    c.nothing();
    c.send(1, m::Cancel {}, b"");
    assert_eq!(failed(1), 500);
    for id in 2..=3 {
        c.send(id, member(model, 3), &good);
        assert_eq!(failed(id), 100);
    }
    // All have come: the number is free.
    c.send(4, member(model, 1), &good);
    assert_eq!(text(&c.until_end(4)), "words");
}

#[test]
fn a_group_that_cannot_start_ends_for_all() {
    let c = Client::new(100);
    let model = c.load("echo");
    let good = document(json!([{ "text": "words" }]), json!({}));
    let failed = |id: u32| read::<m::Failed>(&c.until_end(id).pop().unwrap());
    // One that is refused.
    c.send(1, member(model, 2), &good);
    c.send(2, member(model, 2), &document(json!([{ "text": "words" }]), json!({ "temperature": -1.0 })));
    let mut ends: Vec<m::Failed> = (0..2).map(|_| read(&c.next())).collect();
    assert!(ends.iter().all(|e| e.code == 100 && e.class == Class::Input as u32), "{ends:?}");
    // One that is cancelled while it waits.
    c.send(3, member(model, 3), &good);
    c.send(4, member(model, 3), &good);
    c.nothing();
    c.send(3, m::Cancel {}, b"");
    ends = (0..2).map(|_| read(&c.next())).collect();
    ends.sort_by_key(|e| e.code);
    assert_eq!(ends.iter().map(|e| e.code).collect::<Vec<_>>(), [100, 500]);
    // One that names something else.
    c.send(5, member(model, 2), &good);
    c.nothing();
    c.send(6, member(model, 3), &good);
    assert_eq!(failed(6).code, 100);
    c.send(7, member(model, 2), &good);
    let mut ended = 0;
    while ended < 2 {
        let frame = c.next();
        assert!(frame.kind != m::Failed::KIND, "the group itself is not disturbed");
        ended += usize::from(frame.kind == m::Generated::KIND);
    }
    for (id, members) in [(8, 0), (9, 65)] {
        assert_eq!(c.fails(id, member(model, members), &good).code, 100);
    }
    assert_eq!(c.fails(10, member(model, 1), br#"{"blocks":[]}"#).code, 100);
}

#[test]
fn one_pass_over_the_weights_serves_all_branches() {
    let c = Client::with_engine(1000);
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf");
    let model = c.load(file);
    c.call::<_, m::Ok>(1, m::ModelPrefixCache { model, bytes: 0 }, b"");
    let stats = || c.call::<_, m::Info>(2, m::ModelStats { model }, b"").1;
    let (session, _) =
        c.call::<_, m::Session>(3, m::SessionOpen { model, checkpoint: None, context: None }, b"");
    let blocks = br#"{"blocks":[{"text":"Once upon a time a small machine learned to speak."}]}"#;
    let append = m::SessionAppend { session: session.session, replace: false };
    let (session, _) = c.call::<_, m::Session>(4, append, blocks);
    let options = |seed: u32| json!({ "max_tokens": 16, "temperature": 0.8, "seed": seed });
    let on_session =
        |members| m::GenerateBranch { model: None, session: Some(session.session), ..member(0, members) };
    let mut alone = Vec::new();
    let before = stats();
    for seed in 0..6 {
        c.send(10 + seed, on_session(1), &document(json!([]), options(seed)));
        alone.push(text(&c.until_end(10 + seed)));
    }
    let middle = stats();
    for seed in 0..6 {
        c.send(20 + seed, on_session(6), &document(json!([]), options(seed)));
    }
    let mut frames = vec![Vec::new(); 6];
    let mut ended = 0;
    while ended < 6 {
        let frame = c.next();
        ended += usize::from(frame.kind == m::Generated::KIND);
        frames[frame.request as usize - 20].push(frame);
    }
    let after = stats();
    assert_eq!(frames.iter().map(|f| text(f)).collect::<Vec<_>>(), alone);
    let count = |a: &Value, b: &Value, what: &str| b[what].as_u64().unwrap() - a[what].as_u64().unwrap();
    assert_eq!(count(&before, &middle, "tokens"), count(&middle, &after, "tokens"));
    let (apart, together) = (count(&before, &middle, "passes"), count(&middle, &after, "passes"));
    // How much depends on how the threads meet; one that pulls alone takes all along, as the engine's tests count.
    assert!(together < apart, "{together} passes together, {apart} apart");
    // The session is as it was, and can be cut.
    let cut = |begin, end| m::SessionCut { session: session.session, begin, end };
    let (shorter, _) = c.call::<_, m::Session>(30, cut(2, Some(5)), b"");
    assert_eq!(shorter.tokens, session.tokens - 3);
    let (shorter, _) = c.call::<_, m::Session>(31, cut(4, None), b"");
    assert_eq!(shorter.tokens, 4);
    let refused = c.fails(32, cut(3, Some(9)), b"");
    assert!(refused.code == 100 && refused.message.contains("4 tokens"), "{refused:?}");
}
