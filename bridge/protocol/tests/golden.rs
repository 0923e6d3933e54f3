//! The vectors in `tests/wire`: written from here with `UPDATE_GOLDEN=1`, run by every host.

use lean_protocol::messages::{self as m, ALL};
use lean_protocol::wire::{Bytes, Field, Reader, Writer};
use lean_protocol::{Class, Codes, Direction, Flags, Frame, FrameReader, Message, MAGIC, MAX_FRAME_DEFAULT};
use serde_json::{json, Value};
use std::path::PathBuf;

const F0: Flags = Flags(0);

fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/wire"))
}

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1")
}

/// Compares with the file, or writes it.
fn golden(name: &str, bytes: &[u8]) {
    let path = dir().join(name);
    if updating() {
        std::fs::create_dir_all(dir()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        return;
    }
    let found = std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}; UPDATE_GOLDEN=1 writes it"));
    assert!(found == bytes, "{name} is stale; if the change is meant, UPDATE_GOLDEN=1 rewrites it");
}

fn pretty(v: &Value) -> Vec<u8> {
    let mut s = serde_json::to_string_pretty(v).unwrap();
    s.push('\n');
    s.into_bytes()
}

struct Case {
    name: String,
    about: String,
    max_frame: u32,
    magic: bool,
    bytes: Vec<u8>,
}

fn case(name: &str, about: &str, frames: &[Frame]) -> Case {
    let mut bytes = Vec::new();
    frames.iter().for_each(|f| f.encode_into(&mut bytes));
    raw(name, about, bytes)
}

fn raw(name: &str, about: &str, bytes: Vec<u8>) -> Case {
    Case { name: name.into(), about: about.into(), max_frame: MAX_FRAME_DEFAULT, magic: false, bytes }
}

fn f<M: Message>(request: u32, flags: Flags, message: M, tail: &[u8]) -> Frame {
    Frame::new(request, flags, &message, tail, 0)
}

/// What a correct reader sees: the frames, then the error if there is one.
fn read_all(c: &Case) -> (Vec<Value>, Option<&'static str>) {
    let mut reader =
        if c.magic { FrameReader::with_magic(c.max_frame) } else { FrameReader::new(c.max_frame) };
    reader.push(&c.bytes);
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => match describe(&frame) {
                Ok(v) => frames.push(v),
                Err(name) => return (frames, Some(name)),
            },
            Ok(None) => return (frames, reader.finish().err().map(|e| e.name())),
            Err(e) => return (frames, Some(e.name())),
        }
    }
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}

fn describe(frame: &Frame) -> Result<Value, &'static str> {
    let head = m::decode_any(frame.kind, frame.head(), 0).map_err(|e| e.name())?;
    let mut v = json!({
        "request": frame.request,
        "kind": frame.kind,
        "name": m::spec(frame.kind).map(|s| s.name),
        "flags": frame.flags.0,
    });
    match head {
        Some(h) => v["head"] = h,
        None => v["head_hex"] = json!(hex(frame.head())),
    }
    match std::str::from_utf8(frame.tail()) {
        Ok(text) => v["tail"] = json!(text),
        Err(_) => v["tail_hex"] = json!(hex(frame.tail())),
    }
    Ok(v)
}

fn hello() -> m::Hello {
    m::Hello {
        major: 1,
        minor_min: 0,
        minor_max: 0,
        engine: "lean 0.1.0".into(),
        max_frame: MAX_FRAME_DEFAULT,
        capabilities: vec!["cpu".into(), "echo".into()],
    }
}

fn ack() -> m::HelloAck {
    m::HelloAck { minor: 0, credit: 32, max_frame: None }
}

fn accepted() -> Vec<Case> {
    let crit = Flags::CRITICAL;
    let end = Flags::END;
    let doc =
        br#"{"blocks":[{"text":"Invent a user."}],"type":{"expr":{"id":"number"}},"options":{"seed":0}}"#;
    let mut cases = vec![
        case(
            "hello_ack",
            "the host's first frame; a lower maximum is asked for",
            &[f(0, F0, m::HelloAck { max_frame: Some(65536), ..ack() }, b"")],
        ),
        case(
            "load",
            "all options given",
            &[f(
                1,
                crit,
                m::Load {
                    path: "models/größer.gguf".into(),
                    backend: Some("cpu".into()),
                    threads: Some(2),
                    context: Some(4096),
                    progress: true,
                },
                b"",
            )],
        ),
        case(
            "load_defaults",
            "an absent value is an option, never zero",
            &[f(1, crit, m::Load { path: "echo".into(), ..Default::default() }, b"")],
        ),
        case("unload", "", &[f(2, crit, m::Unload { model: 1 }, b"")]),
        case("model_info", "", &[f(3, crit, m::ModelInfo { model: 1 }, b"")]),
        case(
            "generate",
            "the tail is one JSON document",
            &[f(
                4,
                crit,
                m::Generate { model: Some(1), session: None, checkpoint: Some(7), keep: true, events: true },
                doc,
            )],
        ),
        case(
            "generate_branch",
            "two values that continue one checkpoint together, each a request of its own",
            &[4, 5].map(|request| {
                let branch = m::GenerateBranch {
                    group: 9,
                    members: 2,
                    model: Some(1),
                    checkpoint: Some(7),
                    events: true,
                    ..Default::default()
                };
                f(request, crit, branch, doc)
            }),
        ),
        case("model_stats", "", &[f(3, crit, m::ModelStats { model: 1 }, b"")]),
        case(
            "model_prefix_cache",
            "more bytes than 32 bits count",
            &[f(3, crit, m::ModelPrefixCache { model: 1, bytes: 5_000_000_000 }, b"")],
        ),
        case(
            "session_cut",
            "a range, and everything from a token on",
            &[
                f(5, crit, m::SessionCut { session: 3, begin: 10, end: Some(20) }, b""),
                f(6, crit, m::SessionCut { session: 3, begin: 10, end: None }, b""),
            ],
        ),
        case(
            "session_open",
            "",
            &[f(5, crit, m::SessionOpen { model: 1, checkpoint: None, context: Some(512) }, b"")],
        ),
        case(
            "session_append",
            "",
            &[f(
                6,
                crit,
                m::SessionAppend { session: 3, replace: false },
                br#"{"blocks":[{"raw":"<|im_start|>"}]}"#,
            )],
        ),
        case("session_fork", "", &[f(7, crit, m::SessionFork { session: 3 }, b"")]),
        case("session_close", "", &[f(8, crit, m::SessionClose { session: 3 }, b"")]),
        case(
            "checkpoint_take",
            "of a running generation",
            &[f(9, crit, m::CheckpointTake { session: None, generation: Some(4) }, b"")],
        ),
        case(
            "checkpoint_save",
            "to a file",
            &[f(10, crit, m::CheckpointSave { checkpoint: 7, path: Some("user.lean".into()) }, b"")],
        ),
        case(
            "checkpoint_upload",
            "inline: the request, then its chunks; the last one ends the upload",
            &[
                f(11, crit, m::CheckpointLoad { model: 1, path: None }, b""),
                f(11, crit, m::Chunk { offset: 0, digest: None }, b"12345"),
                f(11, crit | end, m::Chunk { offset: 5, digest: Some(0xCBF4_3926) }, b"6789"),
            ],
        ),
        case("checkpoint_drop", "", &[f(12, crit, m::CheckpointDrop { checkpoint: 7 }, b"")]),
        case("cancel", "carries the id of the request it cancels", &[f(4, F0, m::Cancel {}, b"")]),
        case("credit", "", &[f(4, F0, m::Credit { events: 16 }, b"")]),
        case("shutdown", "", &[f(13, crit, m::Shutdown {}, b"")]),
        case(
            "adapter_load",
            "",
            &[f(14, crit, m::AdapterLoad { model: 1, path: "adapters/größer".into() }, b"")],
        ),
        case("adapter_drop", "", &[f(15, crit, m::AdapterDrop { adapter: 2 }, b"")]),
        case(
            "session_adapt",
            "two adapters, the second at half its strength",
            &[f(16, crit, m::SessionAdapt { session: 3, adapters: vec![2, 5], scales: vec![1.0, 0.5] }, b"")],
        ),
        case(
            "adapter",
            "",
            &[f(14, end, m::Adapter { adapter: 2 }, r#"{"name":"größer","matrices":42}"#.as_bytes())],
        ),
        case(
            "progress",
            "u64 beyond 32 bits",
            &[f(1, F0, m::Progress { done: 5_000_000_000, total: u64::MAX }, b"")],
        ),
        case("prefill", "", &[f(4, F0, m::Prefill { done: 64, total: 1513 }, b"")]),
        case(
            "tokens",
            "tokens with their text; then a token whose text is not whole yet",
            &[
                f(4, F0, m::Tokens { ids: vec![1, 300, 49151], forced: true }, "{\"naïve\":".as_bytes()),
                f(4, F0, m::Tokens { ids: vec![0], forced: false }, b""),
            ],
        ),
        case(
            "partial",
            "the value so far, closed; its first 10 bytes are final",
            &[f(4, F0, m::Partial { path: "/name".into(), final_bytes: 10 }, br#"{"name":"A"}"#)],
        ),
        case(
            "candidates",
            "what the next token is chosen from; the likeliest one is not allowed",
            &[f(
                4,
                F0,
                m::Candidates {},
                r#"[{"id":7,"text":"Größe","probability":0.75,"allowed":false},{"id":3,"text":"","probability":0.25,"allowed":true}]"#.as_bytes(),
            )],
        ),
        case("loaded", "", &[f(1, end, m::Loaded { model: 1 }, br#"{"architecture":"echo"}"#)]),
        case("info", "", &[f(3, end, m::Info {}, br#"{"architecture":"echo"}"#)]),
        case(
            "generated",
            "",
            &[f(
                4,
                end,
                m::Generated { checkpoint: Some(8) },
                br#"{"value":{"id":1},"text":"{\"id\":1}","finish":"complete","usage":{"sampled":5}}"#,
            )],
        ),
        case("session", "", &[f(5, end, m::Session { session: 3, tokens: 0 }, b"")]),
        case("checkpoint", "", &[f(9, end, m::Checkpoint { checkpoint: 9, tokens: 77 }, b"")]),
        case(
            "checkpoint_download",
            "chunks are events: raw bytes in the tail",
            &[
                f(10, F0, m::Chunk { offset: 0, digest: None }, &[0, 0xff, 0xfe, 0x80]),
                f(10, end, m::Saved { size: 4, digest: 0x0A99_4C1C }, b""),
            ],
        ),
        case("ok", "", &[f(8, end, m::Ok {}, b"")]),
        case(
            "error",
            "a failed request, with its numbers",
            &[f(
                4,
                end | Flags::ERROR,
                m::Failed {
                    code: 130,
                    class: Class::Input as u32,
                    retryable: false,
                    name: "context_overflow".into(),
                    message: "context overflow: 5000 tokens are needed, 4096 are available".into(),
                },
                br#"{"needed":5000,"available":4096}"#,
            )],
        ),
        case(
            "error_fatal",
            "on request 0: the connection is over",
            &[f(
                0,
                end | Flags::ERROR,
                m::Failed {
                    code: Codes::PROTOCOL,
                    class: Class::Protocol as u32,
                    retryable: false,
                    name: "protocol".into(),
                    message: "a frame of 4294967295 bytes; at most 1048576 are allowed".into(),
                },
                b"",
            )],
        ),
        case(
            "unknown_kind",
            "a kind from the future is read and skipped",
            &[Frame::from_parts(4, 0x8fff, F0, &[1, 2, 3], b"whatever"), f(4, F0, m::Cancel {}, b"")],
        ),
        case(
            "unknown_flags",
            "flag bits from the future are ignored",
            &[f(4, Flags(0x8000), m::Cancel {}, b"")],
        ),
        case("empty", "a stream may end between frames", &[]),
    ];
    let mut greeting =
        case("handshake", "the bridge's greeting: magic, then HELLO", &[f(0, F0, hello(), b"")]);
    greeting.bytes.splice(0..0, MAGIC);
    greeting.magic = true;
    cases.push(greeting);
    let newer = lean_protocol::encode_head(&hello(), 0).into_iter().chain([1, 2, 3]).collect::<Vec<u8>>();
    cases.push(case(
        "hello_newer",
        "HELLO of a newer bridge: what follows the known fields is ignored",
        &[Frame::from_parts(0, m::Hello::KIND, F0, &newer, b"")],
    ));
    let mut exact =
        case("max_frame_exact", "a body of exactly the maximum", &[f(4, F0, m::Cancel {}, &[b'x'; 64])]);
    exact.max_frame = 64;
    cases.push(exact);
    cases
}

fn with_head(kind: u16, head: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    f(1, F0, m::Ok {}, b"").encode_into(&mut out);
    Frame::from_parts(1, kind, Flags::CRITICAL, head, b"").encode_into(&mut out);
    out
}

fn rejected() -> Vec<Case> {
    let header = |body: u32, head: u32| {
        lean_protocol::Header { body_len: body, request: 1, kind: 2, flags: F0, head_len: head }
            .encode()
            .to_vec()
    };
    let credit = m::Credit::KIND;
    let take = m::CheckpointTake::KIND;
    let load = m::Load::KIND;
    let mut long = Vec::new();
    f(4, F0, m::Cancel {}, &[b'x'; 65]).encode_into(&mut long);
    let mut cases = vec![
        raw(
            "reject_frame_too_large",
            "4 GiB announced: refused before anything is allocated",
            header(u32::MAX, 0),
        ),
        raw("reject_head_longer_than_body", "", header(10, 11)),
        raw("reject_truncated_header", "the stream ends inside a header", header(0, 0)[..9].to_vec()),
        raw("reject_truncated_body", "the stream ends inside a body", [header(10, 2), vec![0; 7]].concat()),
        raw("reject_trailing_bytes", "a head with a byte too many for its minor", with_head(credit, &[1, 0])),
        raw(
            "reject_missing_field",
            "a head that ends before its fields",
            with_head(load, &[4, b'e', b'c', b'h', b'o', 0]),
        ),
        raw(
            "reject_varint_too_long",
            "a u32 of more than 32 bits",
            with_head(credit, &[0xff, 0xff, 0xff, 0xff, 0x1f]),
        ),
        raw("reject_varint_endless", "a varint without an end", with_head(credit, &[0x80; 12])),
        raw(
            "reject_varint_overlong",
            "one in two bytes: one value has one encoding",
            with_head(credit, &[0x81, 0x00]),
        ),
        raw("reject_option_tag", "an option that is neither 0 nor 1", with_head(take, &[2, 0, 0])),
        raw(
            "reject_bool",
            "a bool that is neither 0 nor 1",
            with_head(load, &[4, b'e', b'c', b'h', b'o', 0, 0, 0, 2]),
        ),
        raw(
            "reject_string_too_long",
            "a string longer than its head",
            with_head(load, &[0xff, 0xff, 0xff, 0x7f, b'e']),
        ),
        raw("reject_string_not_utf8", "", with_head(load, &[2, 0xc3, 0x28, 0, 0, 0, 0])),
        raw(
            "reject_sequence_too_long",
            "a sequence of 2^60 elements in a few bytes",
            with_head(m::Tokens::KIND, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 0]),
        ),
    ];
    cases.push(Case {
        max_frame: 64,
        ..raw("reject_over_negotiated", "one byte over the negotiated maximum", long)
    });
    cases.push(Case {
        magic: true,
        ..raw(
            "reject_text_on_stdout",
            "something printed before the magic",
            b"Hello from a library\n".to_vec(),
        )
    });
    cases.push(Case {
        magic: true,
        ..raw("reject_magic_newlines", "a stream whose CR LF was converted", b"\x89LEAN\n\x1a".to_vec())
    });
    cases.push(Case {
        magic: true,
        ..raw("reject_magic_short", "a stream that ends inside the magic", MAGIC[..5].to_vec())
    });
    cases
}

#[test]
fn vectors_and_their_twins() {
    for (c, must_fail) in
        accepted().into_iter().map(|c| (c, false)).chain(rejected().into_iter().map(|c| (c, true)))
    {
        let (frames, error) = read_all(&c);
        assert_eq!(error.is_some(), must_fail, "{}: {error:?}", c.name);
        let twin = json!({ "about": c.about, "magic": c.magic, "max_frame": c.max_frame, "frames": frames, "error": error });
        golden(&format!("{}.bin", c.name), &c.bytes);
        golden(&format!("{}.json", c.name), &pretty(&twin));
    }
}

#[test]
fn no_stray_files_and_every_message_has_a_vector() {
    if updating() {
        return;
    }
    let cases: Vec<Case> = accepted().into_iter().chain(rejected()).collect();
    let known: Vec<String> =
        cases.iter().flat_map(|c| [format!("{}.bin", c.name), format!("{}.json", c.name)]).collect();
    for entry in std::fs::read_dir(dir()).unwrap().map(|e| e.unwrap()).filter(|e| e.path().is_file()) {
        let name = entry.file_name().into_string().unwrap();
        let table = ["messages.json", "primitives.json", ".gitattributes"].contains(&name.as_str());
        assert!(table || known.contains(&name), "{name} belongs to no case");
    }
    let seen: Vec<u64> =
        accepted().iter().flat_map(|c| read_all(c).0).map(|v| v["kind"].as_u64().unwrap()).collect();
    for s in ALL {
        assert!(seen.contains(&(s.kind as u64)), "no vector for {}", s.name);
    }
}

/// The table of messages, so that a host can check its own against it.
#[test]
fn message_table() {
    let table: Vec<Value> = ALL
        .iter()
        .map(|s| {
            let fields: Vec<Value> = (s.fields)()
                .into_iter()
                .map(|(name, ty, since)| json!({ "name": name, "type": ty, "since": since }))
                .collect();
            let to = match s.direction {
                Direction::ToBridge => "bridge",
                Direction::ToHost => "host",
                Direction::Both => "both",
            };
            json!({ "kind": s.kind, "name": s.name, "to": to, "fields": fields })
        })
        .collect();
    golden("messages.json", &pretty(&json!(table)));
    let mut kinds: Vec<u16> = ALL.iter().map(|s| s.kind).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), ALL.len(), "a kind is used twice");
}

fn primitive<T: Field + PartialEq + std::fmt::Debug + serde::Serialize>(v: T) -> Value {
    let mut w = Writer::new();
    v.put(&mut w);
    let bytes = w.into_bytes();
    assert_eq!(bytes, postcard::to_stdvec(&v).unwrap(), "{v:?} is not postcard");
    let mut r = Reader::new(&bytes);
    assert_eq!(T::get(&mut r).unwrap(), v);
    assert_eq!(r.remaining(), 0);
    json!({ "type": T::type_name(), "value": v.to_json(), "hex": hex(&bytes) })
}

fn refused<T: Field + std::fmt::Debug>(bytes: &[u8]) -> Value {
    assert!(T::get(&mut Reader::new(bytes)).is_err(), "{bytes:02x?} as {}", T::type_name());
    json!({ "type": T::type_name(), "hex": hex(bytes), "error": true })
}

/// Every type of the subset, also those no message uses yet; byte for byte what postcard itself writes.
#[test]
fn primitives_are_postcard() {
    let mut all = vec![primitive(false), primitive(true)];
    all.extend([0u32, 1, 127, 128, 16383, 16384, u32::MAX].map(primitive));
    all.extend([0u64, 300, 1 << 53, u64::MAX].map(primitive));
    all.extend([0i64, -1, 1, -64, 64, i64::MIN, i64::MAX].map(primitive));
    all.extend([0f32, -1.5, f32::MIN_POSITIVE].map(primitive));
    all.extend([0f64, 0.1, -1e300].map(primitive));
    all.extend(["", "naïve", "日本"].map(|s| primitive(s.to_string())));
    all.extend([primitive(None::<u32>), primitive(Some(0u32)), primitive(Some("x".to_string()))]);
    all.extend([primitive(Vec::<u32>::new()), primitive(vec![1u32, 300]), primitive(vec!["a".to_string()])]);
    let mut w = Writer::new();
    Bytes(vec![1, 0xff]).put(&mut w);
    all.push(json!({ "type": "bytes", "value": "01ff", "hex": hex(&w.into_bytes()) }));
    all.extend([
        refused::<bool>(&[2]),
        refused::<u32>(&[]),
        refused::<u32>(&[0x80]),
        refused::<u32>(&[0xff, 0xff, 0xff, 0xff, 0x10]),
    ]);
    all.extend([
        refused::<u64>(&[0xff; 10]),
        refused::<u64>(&[0x80, 0]),
        refused::<i64>(&[0x80; 11]),
        refused::<f32>(&[0; 3]),
    ]);
    all.extend([
        refused::<String>(&[1]),
        refused::<String>(&[1, 0xff]),
        refused::<Option<u32>>(&[2, 0]),
        refused::<Vec<u32>>(&[3, 1, 1]),
    ]);
    golden("primitives.json", &pretty(&json!(all)));
}
