//! A bridge in this process speaks the bytes of one in its own, and ends well. Nothing here waits for a moment: what
//! another thread may or may not have done yet, both are right.

use lean_protocol::messages as m;
use lean_protocol::{decode_head, Flags, Frame, FrameReader, Message, MAGIC, MAX_FRAME_DEFAULT};
use lean_server::echo::{EchoHost, NoModels};
use lean_server::pipe::{Phase, Pipe, Received, Sent, WAITING_BYTES};
use lean_server::Ended;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const NOW: Option<Duration> = Some(Duration::ZERO);
/// Long enough for a loaded machine; a test that reaches it has hung.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(100));
const TEXT: &[u8] = br#"{"blocks":[{"text":"one two three"}],"type":{"text":{"max_chars":null}}}"#;

struct Client {
    pipe: Pipe,
    reader: FrameReader,
    frames: VecDeque<Frame>,
}

impl Client {
    fn open() -> Self {
        let pipe = Pipe::open(Arc::new(EchoHost(NoModels))).unwrap();
        Self { pipe, reader: FrameReader::with_magic(MAX_FRAME_DEFAULT), frames: VecDeque::new() }
    }

    /// After the handshake, with a model.
    fn with_model(path: &str) -> Self {
        let mut client = Self::open();
        assert_eq!(client.next().unwrap().kind, m::Hello::KIND);
        client.send(&bytes(0, m::HelloAck { minor: 0, credit: 100, max_frame: None }, b""));
        client.send(&bytes(1, m::Load { path: path.into(), ..Default::default() }, b""));
        assert_eq!(client.next().unwrap().kind, m::Loaded::KIND);
        client
    }

    fn send(&self, bytes: &[u8]) {
        assert_eq!(self.pipe.send(bytes, PATIENCE), Ok(Sent::All));
    }

    /// The next frame, `None` at the end.
    fn next(&mut self) -> Option<Frame> {
        while self.frames.is_empty() {
            match self.pipe.recv(PATIENCE) {
                Received::Bytes(bytes) => self.reader.push(&bytes),
                Received::None => panic!("nothing came"),
                Received::Ended => return None,
            }
            while let Some(frame) = self.reader.next_frame().unwrap() {
                self.frames.push_back(frame);
            }
            assert_eq!(self.reader.buffered(), 0, "frames come whole");
        }
        self.frames.pop_front()
    }

    /// Kinds of the frames of one request, up to its end.
    fn kinds(&mut self) -> Vec<u16> {
        let mut kinds = Vec::new();
        loop {
            let frame = self.next().expect("the port ended");
            kinds.push(frame.kind);
            if frame.flags.has(Flags::END) {
                return kinds;
            }
        }
    }
}

fn bytes<M: Message>(request: u32, message: M, tail: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::new(request, Flags::CRITICAL, &message, tail, 0).encode_into(&mut out);
    out
}

fn generate(request: u32) -> Vec<u8> {
    bytes(request, m::Generate { model: Some(1), events: true, ..Default::default() }, TEXT)
}

#[test]
fn the_stream_begins_with_the_magic_and_hello() {
    let client = Client::open();
    assert_eq!(client.pipe.phase(), Phase::Open);
    let Received::Bytes(greeting) = client.pipe.recv(NOW) else { panic!("no greeting") };
    assert_eq!(greeting[..8], MAGIC);
    let mut reader = FrameReader::with_magic(MAX_FRAME_DEFAULT);
    reader.push(&greeting);
    assert_eq!(reader.next_frame().unwrap().unwrap().kind, m::Hello::KIND);
    assert_eq!(client.pipe.recv(NOW), Received::None);
}

#[test]
fn frames_may_be_cut_anywhere() {
    let mut whole = Client::with_model("echo");
    whole.send(&generate(2));
    let expected = whole.kinds();
    assert_eq!(expected.len(), 5);
    for size in [1, 15, 16, 17, 1000] {
        let mut client = Client::with_model("echo");
        for piece in [generate(2), generate(3)].concat().chunks(size) {
            client.send(piece);
        }
        let mut ends = 0;
        let mut kinds = [Vec::new(), Vec::new()];
        while ends < 2 {
            let frame = client.next().unwrap();
            ends += usize::from(frame.flags.has(Flags::END));
            kinds[frame.request as usize - 2].push(frame.kind);
        }
        assert_eq!(kinds, [expected.clone(), expected.clone()], "in pieces of {size}");
    }
}

#[test]
fn what_is_no_protocol_ends_it_with_a_reason() {
    let huge = [u32::MAX.to_le_bytes(), [1, 0, 0, 0], [2, 0, 4, 0], [0; 4]].concat();
    for (what, sent) in
        [("text", b"GET / HTTP/1.1\r\n\r\n".to_vec()), ("a size", huge), ("no hello", generate(1))]
    {
        let mut client = Client::open();
        client.next();
        client.send(&sent);
        let last = client.next().unwrap();
        assert_eq!((last.request, last.flags), (0, Flags::END | Flags::ERROR), "{what}");
        assert_eq!(decode_head::<m::Failed>(last.head(), 0).unwrap().code, 600, "{what}");
        assert_eq!(client.next(), None, "{what}");
        assert_eq!(client.pipe.phase(), Phase::Ended(Ended::Protocol), "{what}");
        assert_eq!(client.pipe.send(&generate(2), None), Ok(Sent::Ended), "{what}");
        client.pipe.close();
        assert_eq!(client.pipe.phase(), Phase::Ended(Ended::Protocol), "{what}: how it ended stays");
    }
}

#[test]
fn shutdown_is_answered_and_ends_it() {
    let mut client = Client::with_model("echo?step_ms=60000");
    client.send(&[generate(2), bytes(3, m::Shutdown {}, b"")].concat());
    let mut ends = Vec::new();
    while let Some(frame) = client.next() {
        if frame.flags.has(Flags::END) {
            ends.push((frame.request, frame.kind));
        }
    }
    assert_eq!(ends, [(2, m::Failed::KIND), (3, m::Ok::KIND)]);
    assert_eq!(client.pipe.phase(), Phase::Ended(Ended::Shutdown));
    assert_eq!(client.pipe.send(b"", None), Ok(Sent::Ended));
}

#[test]
fn close_ends_whatever_runs_and_wakes_whoever_waits() {
    for path in ["echo?step_ms=60000", "echo"] {
        let client = Client::with_model(path);
        client.send(&generate(2));
        client.send(&bytes(
            3,
            m::Load { path: "echo?load_steps=1000&load_ms=1000".into(), ..Default::default() },
            b"",
        ));
        let pipe = &client.pipe;
        std::thread::scope(|scope| {
            let receivers: Vec<_> =
                (0..3).map(|_| scope.spawn(|| while pipe.recv(None) != Received::Ended {})).collect();
            let closers: Vec<_> = (0..3).map(|_| scope.spawn(|| pipe.close())).collect();
            for thread in receivers.into_iter().chain(closers) {
                thread.join().unwrap();
            }
        });
        pipe.close();
        assert_eq!(pipe.phase(), Phase::Closed, "{path}");
        assert_eq!(pipe.recv(None), Received::Ended, "{path}");
        assert_eq!(pipe.send(b"x", None), Ok(Sent::Ended), "{path}");
    }
}

/// Frames that cost the sender 16 bytes, and the receiver more.
fn unknown(first: u32, count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for request in first..first + count {
        Frame::from_parts(request, 0x7fff, Flags::CRITICAL, b"", b"").encode_into(&mut out);
    }
    out
}

#[test]
fn while_nobody_receives_little_is_taken_and_nothing_is_lost() {
    const PIECE: u32 = 1000;
    let mut client = Client::with_model("echo");
    let mut sent = 0;
    while client.pipe.send(&unknown(10 + sent, PIECE), NOW).unwrap() == Sent::All {
        sent += PIECE;
        // What waits for the host, what waits for the engine, what the reader has, and half as much again.
        assert!(sent * 16 < 2 << 20, "{sent} requests are taken though nobody receives");
    }
    assert!((sent * 16) as usize > WAITING_BYTES / 2, "{sent} requests are too few");
    let pipe = &client.pipe;
    std::thread::scope(|scope| {
        // Waits until there is room, which the receiver below makes.
        let sender = scope.spawn(|| pipe.send(&unknown(10 + sent, PIECE), PATIENCE));
        let mut ends = 0;
        let mut reader = FrameReader::new(MAX_FRAME_DEFAULT);
        while ends < sent + PIECE {
            let Received::Bytes(bytes) = pipe.recv(PATIENCE) else { panic!("the answers stopped at {ends}") };
            reader.push(&bytes);
            while let Some(frame) = reader.next_frame().unwrap() {
                assert_eq!((frame.request, frame.flags), (10 + ends, Flags::END | Flags::ERROR));
                ends += 1;
            }
        }
        assert_eq!(sender.join().unwrap(), Ok(Sent::All));
    });
    assert_eq!(client.pipe.recv(NOW), Received::None);
    client.send(&generate(2));
    assert_eq!(client.kinds().len(), 5);
}

#[test]
fn close_wakes_whoever_waits_to_send() {
    let client = Client::with_model("echo");
    let pipe = &client.pipe;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut first = 10;
            while pipe.send(&unknown(first, 1000), None).unwrap() == Sent::All {
                first += 1000;
            }
        });
        // Only closing ends it: nobody receives, so at some point it waits.
        pipe.close();
        sender.join().unwrap();
    });
}
