//! The server over the echo model: what every host relies on.

mod common;

use common::{on_model, read, text, Client};
use lean_protocol::messages as m;
use lean_protocol::{crc32::crc32, Class, Codes, Flags, Frame, Message};
use serde_json::json;

const TEXT: &[u8] = br#"{"blocks":[{"text":"one two three"}],"type":{"text":{"max_chars":null}}}"#;

#[test]
fn generates_text_token_by_token() {
    let c = Client::new(100);
    let model = c.load("echo");
    c.send(1, on_model(model), TEXT);
    let frames = c.until_end(1);
    let kinds: Vec<u16> = frames.iter().map(|f| f.kind).collect();
    let t = m::Tokens::KIND;
    assert_eq!(kinds, [m::Prefill::KIND, t, t, t, m::Generated::KIND]);
    assert_eq!(text(&frames), "one two three");
    let end: serde_json::Value = serde_json::from_slice(frames[4].tail()).unwrap();
    assert_eq!(end["value"], "one two three");
    assert_eq!(end["finish"], "complete");
    assert_eq!(end["usage"]["prompt_tokens"], 3);
}

#[test]
fn without_events_only_the_answer_comes() {
    let c = Client::new(0);
    let model = c.load("echo");
    c.send(1, m::Generate { events: false, ..on_model(model) }, TEXT);
    assert_eq!(c.until_end(1).len(), 1);
}

#[test]
fn load_reports_progress_and_can_be_cancelled() {
    let c = Client::new(100);
    let load = |path: &str| m::Load { path: path.into(), progress: true, ..Default::default() };
    c.send(1, load("echo?load_steps=4"), b"");
    let frames = c.until_end(1);
    let done: Vec<u64> = frames[..frames.len() - 1].iter().map(|f| read::<m::Progress>(f).done).collect();
    assert_eq!(done, [0, 1, 2, 3, 4]);
    c.send(2, load("echo?load_steps=1000&load_ms=10"), b"");
    c.next();
    c.send(2, m::Cancel {}, b"");
    let end: m::Failed = read(&c.until_end(2).pop().unwrap());
    assert_eq!((end.code, end.class), (500, Class::Cancelled as u32));
}

#[test]
fn at_zero_credit_generation_parks_and_cancel_still_works() {
    let c = Client::new(0);
    let model = c.load("echo");
    c.send(1, on_model(model), TEXT);
    c.nothing();
    c.send(1, m::Credit { events: 2 }, b"");
    assert_eq!(c.next().kind, m::Prefill::KIND);
    assert_eq!(c.next().tail(), b"one");
    c.nothing();
    c.send(1, m::Cancel {}, b"");
    c.send(1, m::Cancel {}, b"");
    let end = c.next();
    assert!(end.flags.has(Flags::END) && end.flags.has(Flags::ERROR));
    assert_eq!(read::<m::Failed>(&end).name, "cancelled");
    c.send(1, m::Cancel {}, b"");
    c.nothing();
}

#[test]
fn a_slow_request_does_not_hold_up_another() {
    let c = Client::new(100);
    let slow = c.load("echo?step_ms=60000");
    let fast = c.load("echo");
    c.send(1, on_model(slow), TEXT);
    c.send(2, on_model(fast), TEXT);
    assert_eq!(text(&c.until_end(2)), "one two three");
    c.send(1, m::Cancel {}, b"");
    c.until_end(1);
}

#[test]
fn sessions_append_fork_generate_and_stay_as_they_were_after_a_failure() {
    let c = Client::new(100);
    let model = c.load("echo?fail_at=2");
    let (s, _) = c.call::<_, m::Session>(1, m::SessionOpen { model, ..Default::default() }, b"");
    let append = |session| m::SessionAppend { session, replace: false };
    let (s, _) = c.call::<_, m::Session>(2, append(s.session), br#"{"blocks":[{"text":"one two"}]}"#);
    assert_eq!(s.tokens, 2);
    let (branch, _) = c.call::<_, m::Session>(3, m::SessionFork { session: s.session }, b"");
    let generate = |session| m::Generate { session: Some(session), ..Default::default() };
    let ty = br#"{"type":{"text":{"max_chars":null}}}"#;
    let (_, value) = c.call::<_, m::Generated>(4, generate(s.session), ty);
    assert_eq!(value["value"], "one two");
    let more = br#"{"blocks":[{"text":" three"}],"type":{"text":{"max_chars":null}}}"#;
    let failed = c.fails(5, generate(branch.session), more);
    assert_eq!((failed.name.as_str(), failed.retryable), ("device_lost", true));
    let (branch, _) = c.call::<_, m::Session>(6, append(branch.session), b"{}");
    assert_eq!(branch.tokens, 2, "as before the failed call");
    let (replaced, _) = c.call::<_, m::Session>(
        7,
        m::SessionAppend { session: s.session, replace: true },
        br#"{"blocks":[{"text":"one two"},{"text":" 3"}]}"#,
    );
    assert_eq!(replaced.tokens, 3);
    c.call::<_, m::Ok>(8, m::SessionClose { session: s.session }, b"");
    assert_eq!(c.fails(9, generate(s.session), ty).code, 100);
}

#[test]
fn a_session_in_use_is_busy() {
    let c = Client::new(100);
    let model = c.load("echo?step_ms=60000");
    let (s, _) = c.call::<_, m::Session>(1, m::SessionOpen { model, ..Default::default() }, b"");
    c.send(2, m::Generate { session: Some(s.session), ..Default::default() }, TEXT);
    // The second call fails as busy once the first has begun; before that it would win, so it asks repeatedly.
    let busy = (3..200).find_map(|id| {
        c.send(id, m::SessionFork { session: s.session }, b"");
        let end = c.until_end(id).pop().unwrap();
        end.flags.has(Flags::ERROR).then(|| read::<m::Failed>(&end))
    });
    let busy = busy.unwrap();
    assert_eq!((busy.code, busy.class, busy.retryable), (420, Class::Resource as u32, true));
    c.send(2, m::Cancel {}, b"");
    c.until_end(2);
}

#[test]
fn a_checkpoint_taken_inside_a_value_continues_it_elsewhere() {
    let c = Client::new(0);
    let model = c.load("echo");
    c.send(1, on_model(model), TEXT);
    c.send(1, m::Credit { events: 2 }, b"");
    c.next();
    assert_eq!(c.next().tail(), b"one");
    let take = m::CheckpointTake { session: None, generation: Some(1) };
    let (taken, _) = c.call::<_, m::Checkpoint>(2, take, b"");
    c.send(1, m::Credit { events: 100 }, b"");
    let rest = text(&c.until_end(1));
    assert_eq!(rest, " two three");

    // Its bytes, through the wire, into another connection.
    c.send(3, m::CheckpointSave { checkpoint: taken.checkpoint, path: None }, b"");
    c.send(3, m::Credit { events: 100 }, b"");
    let mut frames = c.until_end(3);
    let saved: m::Saved = read(&frames.pop().unwrap());
    let bytes: Vec<u8> = frames.iter().flat_map(|f| f.tail().to_vec()).collect();
    assert_eq!((saved.size, saved.digest), (bytes.len() as u64, crc32(&bytes)));

    let d = Client::new(100);
    let model = d.load("echo");
    let loaded = upload(&d, 1, model, &bytes, crc32(&bytes)).unwrap();
    let go_on = m::Generate {
        model: Some(model),
        checkpoint: Some(loaded.checkpoint),
        events: true,
        ..Default::default()
    };
    let options = br#"{"options":{"seed":1}}"#;
    assert_eq!(d.fails(2, go_on.clone(), options).code, 100, "nothing is ignored silently");
    d.send(2, go_on, b"");
    let frames = d.until_end(2);
    assert_eq!(text(&frames), rest);
    let end: serde_json::Value = serde_json::from_slice(frames.last().unwrap().tail()).unwrap();
    assert_eq!(end["value"], "one two three");

    let ended = c.fails(4, m::CheckpointTake { session: None, generation: Some(1) }, b"");
    assert_eq!(ended.code, 100);
}

fn upload(c: &Client, id: u32, model: u32, bytes: &[u8], digest: u32) -> Result<m::Checkpoint, m::Failed> {
    c.send(id, m::CheckpointLoad { model, path: None }, b"");
    let (a, b) = bytes.split_at(bytes.len() / 2);
    c.send(id, m::Chunk { offset: 0, digest: None }, a);
    let last = m::Chunk { offset: a.len() as u64, digest: Some(digest) };
    c.connection.submit(Frame::new(id, Flags::END, &last, b, 0));
    let end = c.until_end(id).pop().unwrap();
    if end.flags.has(Flags::ERROR) {
        Err(read(&end))
    } else {
        Ok(read(&end))
    }
}

#[test]
fn damaged_uploads_are_refused() {
    let c = Client::new(100);
    let model = c.load("echo");
    let keep = m::Generate { keep: true, ..on_model(model) };
    let (g, _) = c.call::<_, m::Generated>(1, keep, TEXT);
    let (saved, bytes) = {
        c.send(2, m::CheckpointSave { checkpoint: g.checkpoint.unwrap(), path: None }, b"");
        let mut frames = c.until_end(2);
        (
            read::<m::Saved>(&frames.pop().unwrap()),
            frames.iter().flat_map(|f| f.tail().to_vec()).collect::<Vec<u8>>(),
        )
    };
    assert!(upload(&c, 3, model, &bytes, saved.digest).is_ok());
    assert_eq!(upload(&c, 4, model, &bytes, saved.digest ^ 1).unwrap_err().code, 300);
    for i in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[i] ^= 1;
        let e = upload(&c, 5, model, &damaged, crc32(&damaged)).unwrap_err();
        assert_eq!(e.code, 300, "byte {i}: {}", e.message);
    }
    // A gap ends the request, not the connection; what follows of it is ignored.
    c.send(6, m::CheckpointLoad { model, path: None }, b"");
    c.send(6, m::Chunk { offset: 1, digest: None }, b"x");
    c.send(6, m::Chunk { offset: 2, digest: None }, b"x");
    assert_eq!(read::<m::Failed>(&c.until_end(6).pop().unwrap()).code, Codes::PROTOCOL);
    // A cancelled upload ends as well.
    c.send(7, m::CheckpointLoad { model, path: None }, b"");
    c.send(7, m::Cancel {}, b"");
    assert_eq!(read::<m::Failed>(&c.until_end(7).pop().unwrap()).code, 500);
}

#[test]
fn checkpoints_through_files() {
    let path = std::env::temp_dir().join(format!("lean-echo-{}.lean", std::process::id()));
    let path = path.to_str().unwrap().to_string();
    let c = Client::new(100);
    let model = c.load("echo");
    let (g, _) = c.call::<_, m::Generated>(1, m::Generate { keep: true, ..on_model(model) }, TEXT);
    let save = m::CheckpointSave { checkpoint: g.checkpoint.unwrap(), path: Some(path.clone()) };
    let (saved, _) = c.call::<_, m::Saved>(2, save, b"");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), saved.size);
    let (loaded, _) =
        c.call::<_, m::Checkpoint>(3, m::CheckpointLoad { model, path: Some(path.clone()) }, b"");
    assert_eq!(loaded.tokens, 6);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(c.fails(4, m::CheckpointLoad { model, path: Some(path) }, b"").code, 410);
    c.call::<_, m::Ok>(5, m::CheckpointDrop { checkpoint: loaded.checkpoint }, b"");
    assert_eq!(c.fails(6, m::CheckpointDrop { checkpoint: loaded.checkpoint }, b"").code, 100);
}

#[test]
fn a_panic_is_an_error_of_its_request_alone() {
    let c = Client::new(100);
    let bad = c.load("echo?panic_at=1");
    let failed = c.fails(1, on_model(bad), TEXT);
    assert_eq!((failed.code, failed.class), (901, Class::Internal as u32));
    assert!(failed.message.contains("asked to panic"));
    let good = c.load("echo");
    c.call::<_, m::Generated>(2, on_model(good), TEXT);
}

#[test]
fn bad_input_is_an_error_of_its_request_alone() {
    let c = Client::new(100);
    let model = c.load("echo");
    let deep = format!("{{\"blocks\":{}{}}}", "[".repeat(70), "]".repeat(70));
    let cases: [(&str, &str); 8] = [
        ("not JSON", "{"),
        ("no object", "[]"),
        ("too deep", &deep),
        ("unknown member", r#"{"block":[]}"#),
        ("unknown block", r#"{"blocks":[{"txt":"x"}],"type":{"text":{"max_chars":1}}}"#),
        ("no type", r#"{"blocks":[]}"#),
        ("unknown type", r#"{"type":{"exp":{}}}"#),
        ("unknown option", r#"{"type":{"text":{"max_chars":1}},"options":{"temprature":1}}"#),
    ];
    for (i, (what, tail)) in cases.iter().enumerate() {
        let failed = c.fails(10 + i as u32, on_model(model), tail.as_bytes());
        assert_eq!((failed.code, failed.class), (100, Class::Input as u32), "{what}: {}", failed.message);
    }
    assert_eq!(c.fails(30, m::Generate::default(), TEXT).code, 100);
    assert_eq!(c.fails(31, on_model(99), TEXT).code, 100);
    assert_eq!(c.fails(32, m::Load { path: "no/such.gguf".into(), ..Default::default() }, b"").code, 200);
    assert_eq!(
        c.fails(33, m::Load { path: "echo".into(), backend: Some("tpu".into()), ..Default::default() }, b"")
            .code,
        100
    );
}

#[test]
fn types_are_the_engines_also_without_weights() {
    let c = Client::new(100);
    let model = c.load("echo");
    let say = |ty: serde_json::Value, told: serde_json::Value| {
        json!({ "blocks": [{ "json": told }], "type": ty }).to_string().into_bytes()
    };
    let user = json!({ "expr": { "id": "number", "tags?": "string[] <= 2" } });
    let told = json!({ "id": 1, "tags": ["a"] });
    assert_eq!(
        c.call::<_, m::Generated>(1, on_model(model), &say(user.clone(), told.clone())).1["value"],
        told
    );
    c.send(2, on_model(model), &say(json!({ "expr": { "id": "nmber" } }), told));
    let end = c.until_end(2).pop().unwrap();
    let failed: m::Failed = read(&end);
    assert_eq!((failed.code, failed.name.as_str()), (110, "type"));
    let detail: serde_json::Value = serde_json::from_slice(end.tail()).unwrap();
    assert!(detail["at"].as_str().unwrap().contains("/id"), "{detail}");
    let other = say(user, json!({ "id": "one" }));
    assert_eq!(c.fails(3, on_model(model), &other).code, 100, "an echo of another type");
}

#[test]
fn budgets_and_overflows_carry_their_numbers() {
    let c = Client::new(100);
    let load = m::Load { path: "echo".into(), context: Some(4), ..Default::default() };
    let model = c.call::<_, m::Loaded>(1, load, b"").0.model;
    c.send(2, on_model(model), br#"{"blocks":[{"text":"a b c d e"}],"type":{"text":{"max_chars":null}}}"#);
    let end = c.until_end(2).pop().unwrap();
    assert_eq!(read::<m::Failed>(&end).code, 130);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(end.tail()).unwrap(),
        json!({"needed": 5, "available": 4})
    );
    let one = br#"{"blocks":[{"text":"a b"}],"type":{"text":{"max_chars":null}},"options":{"max_tokens":1}}"#;
    assert_eq!(c.call::<_, m::Generated>(3, on_model(model), one).1["finish"], "length");
    let json = br#"{"blocks":[{"json":"a b"}],"type":{"expr":"string"},"options":{"max_tokens":1}}"#;
    let failed = c.fails(4, on_model(model), json);
    assert_eq!(failed.code, 131, "{}", failed.message);
}

#[test]
fn unknown_kinds_are_skipped_unless_critical() {
    let c = Client::new(100);
    c.connection.submit(Frame::from_parts(5, 0x7001, Flags(0), b"??", b""));
    c.nothing();
    c.connection.submit(Frame::from_parts(5, 0x7001, Flags::CRITICAL, b"??", b""));
    assert_eq!(read::<m::Failed>(&c.next()).code, Codes::UNKNOWN_KIND);
    c.load("echo");
}

fn fatal(c: &Client) -> m::Failed {
    let frame = c.next();
    assert_eq!(frame.request, 0);
    assert_eq!(c.connection.ended(), Some(lean_server::Ended::Protocol));
    assert!(c.connection.next(None).is_err(), "nothing after the last word");
    read(&frame)
}

#[test]
fn protocol_errors_are_fatal_on_request_0() {
    let first = Client::silent();
    first.send(1, m::Load { path: "echo".into(), ..Default::default() }, b"");
    assert_eq!(fatal(&first).code, Codes::PROTOCOL);

    let version = Client::silent();
    version.send(0, m::HelloAck { minor: 7, credit: 1, max_frame: None }, b"");
    let e = fatal(&version);
    assert_eq!(e.code, Codes::VERSION);
    assert!(e.message.contains("1.7") && e.message.contains("1.0"), "{}", e.message);

    let newer = Client::silent();
    let longer_head = [1, 5, 0, 42]; // minor 1, and a field that minor 0 does not know
    newer.connection.submit(Frame::from_parts(0, m::HelloAck::KIND, Flags(0), &longer_head, b""));
    assert_eq!(fatal(&newer).code, Codes::VERSION);

    let tiny = Client::silent();
    tiny.send(0, m::HelloAck { minor: 0, credit: 1, max_frame: Some(10) }, b"");
    assert_eq!(fatal(&tiny).code, Codes::PROTOCOL);

    type Breach = fn(&Client);
    let breaches: [(&str, Breach); 4] = [
        ("request 0", |c| c.send(0, m::Load::default(), b"")),
        ("an id in use", |c| {
            let model = c.load("echo?step_ms=60000");
            c.send(1, on_model(model), TEXT);
            c.send(1, on_model(model), TEXT);
        }),
        ("a bad head", |c| c.connection.submit(Frame::from_parts(1, m::Load::KIND, Flags(0), b"\xff", b""))),
        ("a second HELLO_ACK", |c| c.send(0, m::HelloAck::default(), b"")),
    ];
    for (what, breach) in breaches {
        let c = Client::new(100);
        breach(&c);
        assert_eq!(fatal(&c).code, Codes::PROTOCOL, "{what}");
        assert!(c.connection.wait_idle(std::time::Duration::from_secs(10)), "{what}: workers go on");
    }
}

#[test]
fn shutdown_ends_everything_and_answers_last() {
    let c = Client::new(100);
    let model = c.load("echo?step_ms=60000");
    c.send(1, on_model(model), TEXT);
    c.send(2, m::Shutdown {}, b"");
    let end = c.until_end(1).pop().unwrap();
    assert_eq!(read::<m::Failed>(&end).code, 500);
    read::<m::Ok>(&c.until_end(2).pop().unwrap());
    assert!(c.connection.next(None).is_err());
    assert_eq!(c.connection.ended(), Some(lean_server::Ended::Shutdown));
}

#[test]
fn too_many_requests_are_refused_and_free_a_place_when_they_end() {
    let c = Client::new(0);
    let model = c.load("echo");
    (1..=64).for_each(|id| c.send(id, on_model(model), TEXT));
    let refused = c.fails(65, on_model(model), TEXT);
    assert_eq!((refused.code, refused.retryable), (420, true));
    c.send(64, m::Cancel {}, b"");
    c.until_end(64);
    c.send(64, m::Generate { events: false, ..on_model(model) }, TEXT);
    assert_eq!(c.until_end(64).last().unwrap().kind, m::Generated::KIND);
}
