//! The client against the echo model: values, streams, sessions, checkpoints, errors, and how the process lives and dies.

mod common;

use common::{engine, options, Folder};
use lean_client::{
    find_bridge, Blocks, CancelToken, Chat, Engine, Error, Event, Generate, LoadOptions, Request,
    RestoreOptions, RestorePolicy, SaveOptions, SessionOptions, Type,
};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct User {
    id: i64,
    name: String,
}

fn user_type() -> Type {
    Type::expr(r#"{"id": "number.integer", "name": "string < 64"}"#)
}

fn ada() -> User {
    User { id: 7, name: "Ada".into() }
}

#[test]
fn typed_values() {
    let engine = engine();
    assert!(engine.version().starts_with("lean"));
    assert!(engine.capabilities().contains(&"echo".into()));
    let model = engine.load("echo", Default::default()).unwrap();
    assert_eq!(model.info().context_length, 4096);
    let user: User = model.generate(Request::new(user_type()).text("For example: ").json(ada())).unwrap();
    assert_eq!(user, ada());
    let schema = json!({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}, "required": ["id", "name"],
        "additionalProperties": false});
    let user: User = model.generate(Request::new(Type::schema(schema)).json(ada())).unwrap();
    assert_eq!(user, ada());
    let yes: String = model.generate(Request::new(Type::choice(["yes", "no"])).text("I say no")).unwrap();
    assert_eq!(yes, "no");
    let all = model.run::<String>(Request::text_of("one two three").max_tokens(2)).unwrap();
    assert_eq!((all.value.as_str(), all.finish.as_str()), ("one two", "length"));
    assert_eq!((all.usage.prompt_tokens, all.usage.sampled_tokens), (3, 2));
    assert!(all.confidence.is_null() && all.checkpoint.is_none());
    assert_eq!(model.generate::<String>(Request::text_of("a b STOP c").stop(["STOP"])).unwrap(), "a b ");
    let chat = Chat::new([("system", "Be brief."), ("user", "Hi")]);
    let told: String = model.generate(Request::new(Type::text()).chat(chat)).unwrap();
    assert!(told.contains("Hi"), "{told}");
}

#[test]
fn errors_are_typed_and_come_before_the_first_token() {
    let engine = engine();
    let model = engine.load("echo", Default::default()).unwrap();
    let failed = |request: Request| model.generate::<Value>(request).unwrap_err();
    for (what, request, code) in [
        ("a type that is no JSON", Request::new(Type::expr("{")), Error::TYPE),
        ("a type that is unknown", Request::new(Type::expr("strinh")), Error::TYPE),
        ("a schema that is no JSON", Request::new(Type::schema_text("{")), Error::TYPE),
        ("a number that is none", Request::text_of("x").temperature(f64::NAN), Error::INVALID_ARGUMENT),
        (
            "a context that is too long",
            Request::text_of("x ".repeat(5000)).max_tokens(1),
            Error::CONTEXT_OVERFLOW,
        ),
        (
            "a budget for no value",
            Request::new(Type::expr("string[]")).json(["a b c d"]).max_tokens(2),
            Error::BUDGET_TOO_SMALL,
        ),
        ("a value of another shape", Request::text_of("word"), Error::INVALID_ARGUMENT),
    ] {
        let error = match what {
            "a value of another shape" => model.generate::<User>(request).unwrap_err(),
            _ => failed(request),
        };
        assert_eq!(error.code, code, "{what}: {error}");
    }
    assert_eq!(failed(Request::text_of("x ".repeat(5000))).details["available"], 4096);
    let huge = failed(Request::text_of("x".repeat(2 << 20)));
    assert!(huge.message.contains("at most 1048576"), "{huge}");
    assert_eq!(engine.load("/no/such/file.gguf", Default::default()).unwrap_err().code, Error::MODEL_IO);
    let other = common::engine().load("echo", Default::default()).unwrap();
    let kept = other.run::<String>(Request::text_of("x").keep()).unwrap().checkpoint.unwrap();
    let foreign = failed(Request::text_of("x").after(&kept));
    assert!(foreign.message.contains("another engine"), "{foreign}");
}

#[test]
fn streams_of_events_and_of_partial_values() {
    let engine = engine();
    let model = engine.load("echo", Default::default()).unwrap();
    let mut stream = model.stream::<String>(Request::text_of("one two")).unwrap();
    let first = stream.next().unwrap().unwrap();
    assert_eq!(first, Event::Prefill { done: 2, total: 2 });
    assert_eq!(stream.text().map(|t| t.unwrap()).collect::<Vec<_>>(), ["one", " two"]);
    assert_eq!(stream.finish().unwrap().value, "one two");

    let words = "w ".repeat(200);
    let mut unread = model.stream::<String>(Request::text_of(words.clone())).unwrap();
    assert_eq!(model.generate::<String>(Request::text_of("beside it")).unwrap(), "beside it");
    assert_eq!(unread.by_ref().take(3).filter(|e| e.is_ok()).count(), 3);
    assert_eq!(unread.finish().unwrap().value, words);

    // The echo model says a value in one token: a model of random weights shows how one grows.
    let tiny = common::repository().join("tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf");
    let cpu = LoadOptions { backend: Some("cpu".into()), ..LoadOptions::default() };
    let model = engine.load(tiny, cpu).unwrap();
    let request =
        Request::new(user_type()).text("A user: ").max_tokens(80).temperature(1.0).seed(1).partials();
    let mut stream = model.stream::<User>(&request).unwrap();
    let partials: Vec<Value> = stream.partials().map(|p| p.unwrap()).collect();
    let whole = stream.finish().unwrap();
    assert!(partials.len() > 3 && partials.iter().all(Value::is_object), "{partials:?}");
    assert_eq!(partials.last().unwrap(), &json!(whole.value));
    assert_eq!(whole.text, json!(whole.value).to_string());
}

#[test]
fn cancellation_leaves_a_session_as_it_was() {
    let engine = engine();
    let model = engine.load("echo?step_ms=2", Default::default()).unwrap();
    let session = model.session(SessionOptions::default()).unwrap();
    session.append(Blocks::new().text("one two")).unwrap();
    let long = "w ".repeat(2000);
    // Forgotten.
    let mut stream = session.stream::<String>(Request::text_of(long.clone())).unwrap();
    stream.next().unwrap().unwrap();
    drop(stream);
    // By a token, from another thread.
    let token = CancelToken::new();
    let cancelling = token.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        cancelling.cancel();
    });
    let cancelled = session.generate::<String>(Request::text_of(long.clone()).cancel(&token)).unwrap_err();
    thread.join().unwrap();
    assert_eq!(cancelled.code, Error::CANCELLED);
    let at_once = session.generate::<String>(Request::text_of("x").cancel(&token)).unwrap_err();
    assert_eq!(at_once.code, Error::CANCELLED);
    // By its deadline.
    let late = Request::text_of(long).timeout(Duration::from_millis(30));
    let late = session.generate::<String>(late).unwrap_err();
    assert_eq!((late.code, late.retryable), (Error::TIMEOUT, true));
    assert_eq!(session.generate::<String>(Request::new(Type::text())).unwrap(), "one two");
}

#[test]
fn sessions_fork_cut_and_go_on() {
    let engine = engine();
    let model = engine.load("echo", Default::default()).unwrap();
    let session = model.session(SessionOptions { context: Some(100), ..SessionOptions::default() }).unwrap();
    session.append(Blocks::new().text("one").text(" two")).unwrap();
    let fork = session.fork().unwrap();
    fork.append(Blocks::new().text(" three four")).unwrap();
    assert_eq!((session.tokens(), fork.tokens()), (2, 4));
    fork.truncate(3).unwrap();
    fork.drop_range(0..1).unwrap();
    assert_eq!(fork.tokens(), 2);
    fork.set_context(Blocks::new().text("anew")).unwrap();
    assert_eq!(fork.generate::<String>(Request::new(Type::text())).unwrap(), "anew");
    let out = session.append(Blocks::new().text("x ".repeat(200))).unwrap_err();
    assert_eq!((out.code, session.tokens()), (Error::CONTEXT_OVERFLOW, 2));
    assert!(model.stats().unwrap().is_object());
    model.set_prefix_cache(0).unwrap();
}

#[test]
fn checkpoints_as_bytes_and_files_and_inside_a_value() {
    let folder = Folder::new("checkpoints");
    let file = folder.0.join("a.lean");
    let one = engine();
    let model = one.load("echo", Default::default()).unwrap();
    let mut stream = model.stream::<String>(Request::text_of("one two three four")).unwrap();
    let mut read = String::new();
    while read.len() < 5 {
        if let Event::Token { text, .. } = stream.next().unwrap().unwrap() {
            read.push_str(&text);
        }
    }
    // The bridge runs ahead by its credit: it may be at its end already, which is an error, and no hang.
    let inside = stream.checkpoint();
    assert_eq!(stream.finish().unwrap().value, "one two three four");

    let session = model.session(SessionOptions::default()).unwrap();
    session.append(Blocks::new().text("a b c")).unwrap();
    let whole = session.checkpoint().unwrap();
    assert_eq!(whole.tokens(), Some(3));
    let bytes = whole.to_bytes(&SaveOptions::default()).unwrap();
    let size = whole.save(&file, &SaveOptions::default()).unwrap();
    assert_eq!((size, std::fs::read(&file).unwrap()), (bytes.len() as u64, bytes.clone()));

    let two = one.respawn().unwrap();
    drop((session, whole));
    let model = two.load("echo", Default::default()).unwrap();
    for checkpoint in
        [model.restore(&bytes, &Default::default()), model.restore_file(&file, &Default::default())]
    {
        let after = Request::new(Type::text()).after(&checkpoint.unwrap());
        assert_eq!(model.generate::<String>(after).unwrap(), "a b c");
    }
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    assert_eq!(model.restore(&damaged, &Default::default()).unwrap_err().code, Error::BAD_CHECKPOINT);
    if let Ok(inside) = inside {
        let model = one.load("echo", Default::default()).unwrap();
        let rest = model.generate::<String>(Request::resume().after(&inside)).unwrap();
        assert_eq!(rest, "one two three four");
    }
}

#[test]
fn a_checkpoint_inside_a_value_finishes_it_elsewhere() {
    let one = Engine::spawn(lean_client::SpawnOptions { credit: 4, ..options() }).unwrap();
    let model = one.load("echo", Default::default()).unwrap();
    let words: String = (0..100).map(|i| format!("w{i} ")).collect();
    let mut stream = model.stream::<String>(Request::text_of(words.clone())).unwrap();
    for _ in 0..20 {
        stream.next().unwrap().unwrap();
    }
    let bytes = stream.checkpoint().unwrap().to_bytes(&SaveOptions { compress: true, parent: None }).unwrap();
    stream.cancel();
    one.close();
    let two = engine();
    let model = two.load("echo", Default::default()).unwrap();
    let inside = model.restore(&bytes, &Default::default()).unwrap();
    assert_eq!(model.generate::<String>(Request::resume().after(&inside)).unwrap(), words);
}

#[test]
fn a_checkpoint_of_another_class_is_taken_as_was_said() {
    let engine = engine();
    let tiny = common::repository().join("tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf");
    let load = |kv: &str| {
        let (backend, kv) = (Some("cpu".into()), Some(kv.into()));
        engine.load(&tiny, LoadOptions { backend, kv, threads: Some(1), ..LoadOptions::default() }).unwrap()
    };
    let (whole, half) = (load("f32"), load("f16"));
    let session = whole.session(SessionOptions::default()).unwrap();
    session.append(Blocks::new().text("Once upon a time")).unwrap();
    let bytes = session.checkpoint().unwrap().to_bytes(&SaveOptions::default()).unwrap();
    for (policy, want) in [
        (None, None),
        (Some(RestorePolicy::Exact), None),
        (Some(RestorePolicy::Convert), Some("converted")),
        (Some(RestorePolicy::Reprefill), Some("reprefilled")),
    ] {
        let restored = half.restore(&bytes, &RestoreOptions { policy, parent: None });
        match want {
            None => assert_eq!(restored.unwrap_err().code, Error::INCOMPATIBLE, "{policy:?}"),
            Some(_) => assert_eq!(restored.unwrap().restored(), want),
        }
    }
}

#[test]
fn several_values_at_once_and_more_calls_than_places() {
    let engine = Arc::new(engine());
    let model = engine.load("echo", Default::default()).unwrap();
    let requests: Vec<Request> = (0..5).map(|i| Request::text_of(format!("number {i}"))).collect();
    let all = model.run_many::<String>(&requests).unwrap();
    assert_eq!(all[4].value, "number 4");
    let streams = model.stream_many::<String>(&requests).unwrap();
    for (i, stream) in streams.into_iter().enumerate().rev() {
        assert_eq!(stream.finish().unwrap().value, format!("number {i}"));
    }
    assert_eq!(model.run_many::<String>(&[]).unwrap_err().code, Error::INVALID_ARGUMENT);

    let got = Mutex::new(0);
    std::thread::scope(|scope| {
        for i in 0..100 {
            let (model, got) = (&model, &got);
            scope.spawn(move || {
                let said = model.generate::<String>(Request::text_of(format!("thread {i}"))).unwrap();
                assert_eq!(said, format!("thread {i}"));
                *got.lock().unwrap() += 1;
            });
        }
    });
    assert_eq!(*got.lock().unwrap(), 100);
}

#[test]
fn a_bridge_that_is_missing_says_what_to_install() {
    let missing = find_bridge(Some("/no/such/bridge".as_ref())).unwrap_err();
    assert_eq!(missing.code, Error::BRIDGE_NOT_FOUND);
    assert!(missing.message.contains("SpawnOptions::bridge names /no/such/bridge"), "{missing}");
    if std::env::var_os("LEAN_BRIDGE").is_none() {
        // Test programs have no bridge beside them.
        match find_bridge(None) {
            Ok(installed) => assert!(installed.is_file()),
            Err(e) => assert!(e.message.contains("cargo build --release -p lean-bridge"), "{e}"),
        }
    }
}

#[test]
fn an_engine_that_is_closed_ends_what_runs() {
    let engine = engine();
    let model = engine.load("echo?step_ms=60000", Default::default()).unwrap();
    std::thread::scope(|scope| {
        let mut stream = model.stream::<String>(Request::text_of("one two")).unwrap();
        let reading = scope.spawn(move || stream.next());
        engine.close();
        let ended = reading.join().unwrap().unwrap().unwrap_err();
        assert_eq!(ended.code, Error::CANCELLED, "{ended}");
    });
    assert_eq!(model.generate::<String>(Request::text_of("x")).unwrap_err().code, Error::BRIDGE_EXITED);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A program that stands in for the bridge.
    fn script(folder: &Folder, text: &str) -> lean_client::SpawnOptions {
        let file: PathBuf = folder.0.join("bridge");
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        lean_client::SpawnOptions { bridge: Some(file), ..Default::default() }
    }

    #[test]
    fn a_bridge_that_dies_at_its_start_gives_an_account() {
        let folder = Folder::new("dies");
        let e = Engine::spawn(script(&folder, "echo cannot map the frobnicator >&2; exit 7")).unwrap_err();
        let exit = e.exit.as_ref().unwrap();
        assert_eq!((e.code, exit.status, exit.signal), (Error::BRIDGE_EXITED, Some(7), None));
        assert_eq!(exit.stderr, "cannot map the frobnicator\n");
        assert!(e.to_string().contains("status 7\nIts last words:\ncannot map the frobnicator"), "{e}");
        let e = Engine::spawn(script(&folder, "echo Hello from a library; exec sleep 60")).unwrap_err();
        assert_eq!(e.code, Error::PROTOCOL);
        assert!(e.message.contains("does not begin with the lean magic"), "{e}");
        let e = Engine::spawn(lean_client::SpawnOptions { bridge: Some("/dev/null".into()), ..options() });
        assert_eq!(e.unwrap_err().code, Error::BRIDGE_NOT_FOUND);
    }

    #[test]
    fn a_killed_bridge_ends_every_pending_call_with_an_account_and_another_goes_on() {
        let folder = Folder::new("killed");
        let real = common::built("lean-bridge");
        let starts = script(&folder, &format!("echo warming up >&2; exec {} \"$@\"", real.display()));
        let engine = Engine::spawn(starts).unwrap();
        let model = engine.load("echo?step_ms=60000", Default::default()).unwrap();
        let quick = engine.load("echo", Default::default()).unwrap();
        let session = quick.session(SessionOptions::default()).unwrap();
        session.append(Blocks::new().text("remember me")).unwrap();
        let file = folder.0.join("state.lean");
        session.checkpoint().unwrap().save(&file, &SaveOptions::default()).unwrap();
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..5)
                .map(|_| scope.spawn(|| model.generate::<String>(Request::text_of("one two")).unwrap_err()))
                .collect();
            while model.info().name.is_empty() {}
            // SAFETY: a signal to a process of our own that has not been waited for.
            assert_eq!(unsafe { libc::kill(engine.pid() as i32, libc::SIGKILL) }, 0);
            for call in calls {
                let e = call.join().unwrap();
                let exit = e.exit.unwrap();
                assert_eq!((exit.status, exit.signal), (None, Some(9)));
                assert_eq!(exit.stderr, "warming up\n");
                assert!(e.retryable && e.message.contains("killed by SIGKILL"), "{}", e.message);
            }
        });
        assert!(!engine.is_alive());
        let again = engine.respawn().unwrap();
        let model = again.load("echo", Default::default()).unwrap();
        let restored = model.restore_file(&file, &Default::default()).unwrap();
        let request = Request::new(Type::text()).after(&restored);
        assert_eq!(model.generate::<String>(request).unwrap(), "remember me");
    }
}
