//! The process itself: what goes over the pipes, and how it ends.
#![cfg(unix)]

use lean_protocol::messages as m;
use lean_protocol::{decode_head, Codes, Flags, Frame, FrameReader, Message, MAX_FRAME_DEFAULT};
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

struct Bridge {
    child: Child,
    reader: FrameReader,
}

impl Bridge {
    fn spawn(args: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_lean-bridge"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, reader: FrameReader::with_magic(MAX_FRAME_DEFAULT) }
    }

    /// After the handshake.
    fn greeted() -> Self {
        Self::greeted_with(100)
    }

    fn greeted_with(credit: u32) -> Self {
        let mut b = Self::spawn(&[]);
        assert_eq!(b.next().unwrap().kind, m::Hello::KIND);
        b.send(0, m::HelloAck { minor: 0, credit, max_frame: None }, b"");
        b
    }

    fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send<M: Message>(&mut self, request: u32, message: M, tail: &[u8]) {
        let mut bytes = Vec::new();
        Frame::new(request, Flags::CRITICAL, &message, tail, 0).encode_into(&mut bytes);
        self.write(&bytes);
    }

    /// The next frame, `None` at the end of the stream.
    fn next(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(f) = self.reader.next_frame().unwrap() {
                return Some(f);
            }
            let n = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            if n == 0 {
                self.reader.finish().unwrap();
                return None;
            }
            self.reader.push(&buffer[..n]);
        }
    }

    fn load(&mut self, path: &str) -> u32 {
        self.send(1, m::Load { path: path.into(), ..Default::default() }, b"");
        let frame = self.next().unwrap();
        decode_head::<m::Loaded>(frame.head(), 0).unwrap().model
    }

    /// A generation that would take a minute a token.
    fn start_something_long(&mut self) {
        let model = self.load("echo?step_ms=60000");
        let tail = br#"{"blocks":[{"text":"one"}],"type":{"text":{"max_chars":null}}}"#;
        self.send(2, m::Generate { model: Some(model), events: true, ..Default::default() }, tail);
    }

    fn status(&mut self) -> i32 {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().expect("killed by a signal");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the bridge did not end");
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lean-bridge")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn help_version_and_wrong_arguments() {
    let help = run(&["--help"]);
    assert!(
        help.status.success()
            && String::from_utf8_lossy(&help.stdout).contains("not meant to be run by hand")
    );
    assert!(String::from_utf8_lossy(&run(&["--version"]).stdout).starts_with("lean-bridge "));
    let wrong = run(&["model.gguf"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.stdout.is_empty() && String::from_utf8_lossy(&wrong.stderr).contains("--help"));
}

#[test]
fn end_of_input_cancels_everything_and_exits_with_0() {
    let mut b = Bridge::greeted();
    b.start_something_long();
    drop(b.child.stdin.take());
    assert_eq!(b.status(), 0);
    let mut idle = Bridge::spawn(&[]);
    drop(idle.child.stdin.take());
    assert_eq!(idle.status(), 0);
}

#[test]
fn shutdown_exits_with_0_while_input_stays_open() {
    let mut b = Bridge::greeted();
    b.start_something_long();
    b.send(3, m::Shutdown {}, b"");
    assert_eq!(b.next().unwrap().kind, m::Failed::KIND);
    let last = b.next().unwrap();
    assert_eq!((last.request, last.kind), (3, m::Ok::KIND));
    assert!(b.next().is_none());
    assert_eq!(b.status(), 0);
}

#[test]
fn protocol_errors_are_said_on_request_0_and_exit_with_2() {
    let huge = [0xff; 16];
    let mut longer_head = [0; 16];
    longer_head[12] = 1;
    for (what, bytes) in [
        ("a frame of 4 GiB", &huge[..]),
        ("a head longer than its body", &longer_head),
        ("text", b"GET / HTTP/1.1\r\n\r\n"),
    ] {
        let mut b = Bridge::greeted();
        b.start_something_long();
        b.write(bytes);
        let said = std::iter::from_fn(|| b.next()).find(|f| f.request == 0).expect(what);
        assert!(said.flags.has(Flags::END) && said.flags.has(Flags::ERROR), "{what}");
        assert_eq!(decode_head::<m::Failed>(said.head(), 0).unwrap().code, Codes::PROTOCOL, "{what}");
        assert_eq!(b.status(), 2, "{what}");
    }
}

#[test]
fn a_panic_is_an_error_frame_and_its_message_goes_to_stderr_only() {
    let mut b = Bridge::greeted();
    let model = b.load("echo?panic_at=0");
    let tail = br#"{"blocks":[{"text":"one"}],"type":{"text":{"max_chars":null}}}"#;
    for id in 2..5 {
        b.send(id, m::Generate { model: Some(model), ..Default::default() }, tail);
        let end = b.next().unwrap();
        assert_eq!(decode_head::<m::Failed>(end.head(), 0).unwrap().code, 901);
    }
    drop(b.child.stdin.take());
    assert_eq!(b.status(), 0);
    let mut stderr = String::new();
    b.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("echo was asked to panic"), "{stderr}");
}

/// What a print from a library, or a child process that inherits the descriptors, would meet.
#[cfg(target_os = "linux")]
#[test]
fn descriptors_0_and_1_are_not_the_stream() {
    let b = Bridge::greeted();
    let target = |fd: u32| std::fs::read_link(format!("/proc/{}/fd/{fd}", b.child.id())).unwrap();
    assert_eq!(target(0).to_str(), Some("/dev/null"));
    assert_eq!(target(1), target(2));
}

#[test]
fn the_watched_process_takes_the_bridge_along() {
    let mut parent = Command::new("sleep").arg("60").spawn().unwrap();
    let mut b = Bridge::spawn(&["--parent-pid", &parent.id().to_string()]);
    b.next();
    assert!(b.child.try_wait().unwrap().is_none());
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_eq!(b.status(), 0, "stdin is still open, but the parent is gone");
    let mut late = Bridge::spawn(&["--parent-pid", &parent.id().to_string()]);
    assert_eq!(late.status(), 0, "a parent that is gone already");
}

#[test]
fn a_host_that_does_not_read_cannot_hold_the_end_up() {
    let mut b = Bridge::greeted();
    let model = b.load("echo");
    // Answers of half a megabyte in all, none of which is read.
    let text = "x ".repeat(2000);
    let tail = format!(r#"{{"blocks":[{{"text":"{text}"}}],"type":{{"text":{{"max_chars":null}}}}}}"#);
    for id in 2..40 {
        b.send(id, m::Generate { model: Some(model), ..Default::default() }, tail.as_bytes());
    }
    drop(b.child.stdin.take());
    assert_eq!(b.status(), 0);
}

/// What it takes of memory, in bytes.
#[cfg(target_os = "linux")]
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// What all its threads have computed so far, in nanoseconds.
#[cfg(target_os = "linux")]
fn computed(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let times = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    times.map(|t| t.split_whitespace().next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Not measured for seconds: once none of its threads has anything to do, nothing can grow any more, however long the host
/// does not read. Credit does not help here; this host gave more than anybody needs.
#[cfg(target_os = "linux")]
#[test]
fn a_host_that_stops_reading_costs_under_a_mebibyte_and_loses_nothing() {
    const REQUESTS: usize = 8;
    const WORDS: usize = 20_000;
    let mut b = Bridge::greeted_with(1_000_000);
    b.send(1, m::Load { path: "echo".into(), context: Some(100_000), ..Default::default() }, b"");
    let model = decode_head::<m::Loaded>(b.next().unwrap().head(), 0).unwrap().model;
    let text = vec!["x"; WORDS].join(" ");
    let tail = format!(r#"{{"blocks":[{{"text":"{text}"}}],"type":{{"text":{{"max_chars":null}}}}}}"#);
    for id in 2..2 + REQUESTS as u32 {
        b.send(id, m::Generate { model: Some(model), events: true, ..Default::default() }, tail.as_bytes());
    }
    let (mut tokens, mut ended) = (std::collections::HashMap::new(), 0);
    let mut count = |frame: Frame| {
        if frame.kind == m::Tokens::KIND {
            *tokens.entry(frame.request).or_insert(0) += 1;
        }
        ended += usize::from(frame.flags.has(Flags::END));
        (tokens.len(), ended, tokens.values().sum::<usize>())
    };
    // All of them have run, and what they need is there.
    let read = loop {
        let (begun, _, read) = count(b.next().unwrap());
        if begun == REQUESTS {
            break read;
        }
    };
    assert!(read < WORDS * REQUESTS / 2, "{read} tokens were read: too little is left to fill anything");
    let before = resident(b.child.id());
    let end = Instant::now() + PATIENCE;
    let mut last = 0;
    while last != computed(b.child.id()) {
        assert!(Instant::now() < end, "it goes on computing");
        last = computed(b.child.id());
        std::thread::sleep(Duration::from_millis(200));
    }
    let grown = resident(b.child.id()).saturating_sub(before);
    println!("{} KiB more", grown >> 10);
    assert!(grown < 1 << 20, "{grown} bytes more");
    // Another host's bridge does not notice, and this one goes on where it was.
    assert_eq!(Bridge::greeted().load("echo"), 1);
    while count(b.next().unwrap()).1 < REQUESTS {}
    assert!(tokens.values().all(|n| *n == WORDS), "{tokens:?}");
}
