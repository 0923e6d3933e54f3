//! The conversations of `tests/wire/conformance`, frame by frame, over the process that this crate spawns.

mod common;

use common::Folder;
use lean_client::{Exit, Process};
use lean_protocol::messages as m;
use lean_protocol::wire::{Field, Writer};
use lean_protocol::{crc32::crc32, Flags, Frame, FrameReader, MAX_FRAME_DEFAULT};
use serde_json::{json, Map, Value};
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// How long a frame, or the bridge's end, may take.
const PATIENCE: Duration = Duration::from_secs(60);
const WITH_JSON: [&str; 5] = ["LOADED", "INFO", "GENERATED", "ADAPTER", "ERROR"];
const TIMES: [&str; 3] = ["first_token_seconds", "total_seconds", "tokens_per_second"];

/// One run of a script.
struct Player {
    process: Process,
    input: Option<ChildStdin>,
    incoming: Receiver<Frame>,
    open: HashMap<u32, VecDeque<Frame>>,
    kept: HashMap<String, Vec<u8>>,
    /// Names and what they stand for.
    places: Vec<(&'static str, String)>,
    ended: bool,
}

impl Player {
    fn new(places: Vec<(&'static str, String)>) -> Self {
        let (process, input, mut output) = Process::start(&common::options()).unwrap();
        let (frames, incoming) = channel();
        std::thread::spawn(move || {
            let mut reader = FrameReader::with_magic(MAX_FRAME_DEFAULT);
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                reader.push(&buffer[..n]);
                while let Some(frame) = reader.next_frame().unwrap() {
                    let _ = frames.send(frame);
                }
            }
        });
        let (open, kept) = (HashMap::new(), HashMap::new());
        Self { process, input: Some(input), incoming, open, kept, places, ended: false }
    }

    fn write(&mut self, bytes: &[u8]) {
        // What is written to a bridge that has ended is nobody's: the script says what must come back.
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes).and_then(|()| input.flush());
        }
    }

    fn send(&mut self, f: &Value) {
        let name = f["name"].as_str().unwrap_or("");
        let mut fields = self.replaced(f.get("head").unwrap_or(&json!({})), false);
        let mut tail = match f.get("json") {
            Some(document) => self.replaced(document, false).to_string().into_bytes(),
            None => f["text"].as_str().unwrap_or("").as_bytes().to_vec(),
        };
        if let Some(kept) = f["kept"].as_str() {
            tail = self.kept[kept].clone();
            if fields["digest"] == "DIGEST" {
                fields["digest"] = crc32(&tail).into();
            }
            if let Some(flip) = f["flip"].as_u64() {
                tail[flip as usize] ^= 1;
            }
            let end = f["to"].as_u64().map_or(tail.len(), |n| n as usize);
            tail = tail[f["from"].as_u64().unwrap_or(0) as usize..end].to_vec();
        }
        let spec = m::ALL.iter().find(|s| s.name == name);
        let (kind, head) = match spec {
            Some(spec) => (spec.kind, encoded(&(spec.fields)(), &fields)),
            None => (f["kind"].as_u64().unwrap() as u16, Vec::new()),
        };
        let quiet = ["HELLO_ACK", "CANCEL", "CREDIT"].contains(&name);
        let flags = f["flags"].as_u64().map_or(if quiet { 0 } else { Flags::CRITICAL.0 }, |n| n as u16);
        let request = f["request"].as_u64().unwrap() as u32;
        let mut bytes = Vec::new();
        Frame::from_parts(request, kind, Flags(flags), &head, &tail).encode_into(&mut bytes);
        self.write(&bytes);
    }

    /// A value with the places filled in, or taken out again, and then without times.
    fn replaced(&self, value: &Value, back: bool) -> Value {
        match value {
            Value::String(text) => {
                let change = |t: String, (name, place): &(&str, String)| match back {
                    true => t.replace(place.as_str(), name),
                    false => t.replace(name, place),
                };
                Value::String(self.places.iter().fold(text.clone(), change))
            }
            Value::Array(all) => all.iter().map(|v| self.replaced(v, back)).collect(),
            Value::Object(all) => {
                let one = |(k, v): (&String, &Value)| match back && TIMES.contains(&k.as_str()) {
                    true => (k.clone(), json!(0)),
                    false => (k.clone(), self.replaced(v, back)),
                };
                Value::Object(all.iter().map(one).collect())
            }
            other => other.clone(),
        }
    }

    /// The next frame of a request; those of others wait for their turn.
    fn next(&mut self, request: u32) -> Frame {
        loop {
            if let Some(frame) = self.open.get_mut(&request).and_then(VecDeque::pop_front) {
                return frame;
            }
            let frame = self.incoming.recv_timeout(PATIENCE);
            let frame = frame.unwrap_or_else(|e| panic!("no frame of request {request}: {e}"));
            self.open.entry(frame.request).or_default().push_back(frame);
        }
    }

    fn described(&self, frame: &Frame) -> Value {
        let mut told = Map::new();
        told.insert("request".into(), frame.request.into());
        let name = m::spec(frame.kind).map_or("", |s| s.name);
        match m::decode_any(frame.kind, frame.head(), 0).unwrap() {
            None => {
                told.insert("kind".into(), frame.kind.into());
            }
            Some(head) => {
                told.insert("name".into(), name.into());
                if head.as_object().is_some_and(|fields| !fields.is_empty()) {
                    told.insert("head".into(), self.replaced(&head, true));
                }
            }
        }
        if frame.flags.0 != 0 {
            told.insert("flags".into(), frame.flags.0.into());
        }
        let tail = frame.tail();
        if !tail.is_empty() {
            let (key, value) = match name {
                _ if WITH_JSON.contains(&name) => {
                    ("json", self.replaced(&serde_json::from_slice(tail).unwrap(), true))
                }
                "TOKENS" | "PARTIAL" => ("text", String::from_utf8(tail.to_vec()).unwrap().into()),
                _ => ("bytes", json!({"size": tail.len(), "crc32": crc32(tail)})),
            };
            told.insert(key.into(), value);
        }
        Value::Object(told)
    }

    fn step(&mut self, step: &Value, at: &str) {
        if let Some(frame) = step.get("send") {
            self.send(frame);
        } else if let Some(hex) = step["send_hex"].as_str() {
            let bytes: Vec<u8> =
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            self.write(&bytes);
        } else if let Some(want) = step.get("expect") {
            let mut want = want.clone();
            let frame = self.next(want["request"].as_u64().unwrap() as u32);
            if let Some(Value::String(keep)) = want.as_object_mut().unwrap().remove("keep") {
                self.kept.entry(keep).or_default().extend_from_slice(frame.tail());
            }
            let got = self.described(&frame);
            assert!(same(&want, &got), "{at}\nexpected {want}\ngot      {got}");
        } else if step["close"] == true {
            self.input = None;
        } else if let Some(status) = step["end"].as_i64() {
            self.end(status as i32);
        } else {
            panic!("{at}: a step of no kind");
        }
    }

    /// Nothing more may come, and the bridge exits.
    fn end(&mut self, status: i32) {
        self.ended = true;
        while let Ok(frame) = self.incoming.recv_timeout(PATIENCE) {
            self.open.entry(frame.request).or_default().push_back(frame);
        }
        let left: Vec<Value> = self.open.values().flatten().map(|f| self.described(f)).collect();
        assert!(left.is_empty(), "not expected: {left:?}");
        let exit: Exit = self.process.wait(PATIENCE);
        assert_eq!(exit.status, Some(status), "{exit}");
    }

    fn finish(&mut self) {
        if !self.ended {
            let last = 0x7fff_ffff;
            self.send(&json!({"request": last, "name": "SHUTDOWN"}));
            let frame = self.next(last);
            assert_eq!(self.described(&frame)["name"], "OK");
            self.end(0);
        }
    }
}

/// Whether something is what was expected; numbers by their values.
fn same(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::String(any), _) if any == "<any>" => true,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|other| same(v, other)))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => want == got,
    }
}

/// The head of a message, from its fields by name; those that are missing are absent, false, 0 or empty.
fn encoded(fields: &[(&'static str, String, u32)], values: &Value) -> Vec<u8> {
    let given = values.as_object().unwrap();
    for name in given.keys() {
        assert!(fields.iter().any(|(known, ..)| known == name), "there is no field {name}");
    }
    let mut w = Writer::new();
    for (name, of, _) in fields {
        put(&mut w, of, given.get(*name).unwrap_or(&Value::Null));
    }
    w.into_bytes()
}

fn put(w: &mut Writer, of: &str, value: &Value) {
    let inner = |prefix: &str| of.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("option<") {
        (!value.is_null()).put(w);
        if !value.is_null() {
            put(w, inner, value);
        }
        return;
    }
    if let Some(inner) = inner("seq<") {
        let items = value.as_array().cloned().unwrap_or_default();
        w.varint(items.len() as u64);
        return items.iter().for_each(|item| put(w, inner, item));
    }
    match of {
        "bool" => value.as_bool().unwrap_or(false).put(w),
        "u32" => (value.as_u64().unwrap_or(0) as u32).put(w),
        "u64" => value.as_u64().unwrap_or(0).put(w),
        "f32" => (value.as_f64().unwrap_or(0.0) as f32).put(w),
        "string" => value.as_str().unwrap_or("").to_string().put(w),
        other => panic!("a field of type {other}"),
    }
}

fn play(file: &Path, smol: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut lines = text.lines().enumerate();
    let head: Value = serde_json::from_str(lines.next().unwrap().1).unwrap();
    if head["model"] == "smol" && !smol.is_file() {
        return false;
    }
    let folder = Folder::new(name);
    let in_full = |path: &Path| path.to_str().unwrap().to_owned();
    let mut player = Player::new(vec![
        ("{dir}", in_full(&folder.0)),
        ("{repo}", in_full(&common::repository())),
        ("{smol}", in_full(smol)),
    ]);
    if head["handshake"] != false {
        assert_eq!(player.next(0).kind, <m::Hello as lean_protocol::Message>::KIND);
        let credit = head["credit"].as_u64().unwrap_or(32);
        let max_frame = head.get("max_frame").unwrap_or(&Value::Null);
        player.send(
            &json!({"request": 0, "name": "HELLO_ACK", "head": {"credit": credit, "max_frame": max_frame}}),
        );
    }
    for (i, line) in lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        player.step(&serde_json::from_str(line).unwrap(), &format!("{name}:{}", i + 1));
    }
    player.finish();
    true
}

/// One test for all: each script is named as it is played, in lines as the test harness writes them.
#[test]
fn conformance() {
    let repository = common::repository();
    let models =
        std::env::var_os("LEAN_MODEL_DIR").map_or_else(|| repository.join(".cache/models"), PathBuf::from);
    let smol = std::path::absolute(models.join("SmolLM2-135M-Instruct.Q4_1.gguf")).unwrap();
    let scripts = repository.join("tests/wire/conformance");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "jsonl"));
    files.sort();
    assert!(files.len() > 25, "{} scripts", files.len());
    let mut failed = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let played = std::panic::catch_unwind(|| play(file, &smol));
        println!(
            "script {name} ... {}",
            match played {
                Ok(true) => "ok",
                Ok(false) => "SKIPPED: there is no SmolLM2",
                Err(_) => "FAILED",
            }
        );
        if played.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
