//! A host in a few lines.

use lean_protocol::messages as m;
use lean_protocol::{decode_head, Flags, Frame, Message};
use lean_server::echo::{EchoHost, NoModels};
use lean_server::engine::EngineHost;
use lean_server::port::Host;
use lean_server::Connection;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Long enough for a loaded machine; a test that reaches it has hung.
const PATIENCE: Duration = Duration::from_secs(100);

pub struct Client {
    pub connection: Connection,
}

impl Client {
    /// After the handshake.
    pub fn new(credit: u32) -> Self {
        let client = Self::silent();
        client.send(0, m::HelloAck { minor: 0, credit, max_frame: None }, b"");
        client
    }

    /// After HELLO, before HELLO_ACK.
    pub fn silent() -> Self {
        Self::greeted_by(Arc::new(EchoHost(NoModels)))
    }

    /// After the handshake with a bridge that loads model files.
    #[allow(dead_code)]
    pub fn with_engine(credit: u32) -> Self {
        let client = Self::greeted_by(Arc::new(EchoHost(EngineHost)));
        client.send(0, m::HelloAck { minor: 0, credit, max_frame: None }, b"");
        client
    }

    fn greeted_by(host: Arc<dyn Host>) -> Self {
        let client = Self { connection: Connection::open(host) };
        let hello = client.next();
        assert_eq!((hello.request, hello.kind), (0, m::Hello::KIND));
        client
    }

    pub fn send<M: Message>(&self, request: u32, message: M, tail: &[u8]) {
        self.connection.submit(Frame::new(request, Flags::CRITICAL, &message, tail, 0));
    }

    pub fn next(&self) -> Frame {
        self.connection.next(Some(PATIENCE)).expect("the connection ended").expect("nothing came")
    }

    /// Nothing arrives for a moment.
    #[allow(dead_code)]
    pub fn nothing(&self) {
        let frame = self.connection.next(Some(Duration::from_millis(60)));
        assert!(matches!(frame, Ok(None)), "unexpected {frame:?}");
    }

    /// Frames of the request up to its END frame, which comes last.
    pub fn until_end(&self, request: u32) -> Vec<Frame> {
        let mut all = Vec::new();
        loop {
            let frame = self.next();
            if frame.request == request {
                let end = frame.flags.has(Flags::END);
                all.push(frame);
                if end {
                    return all;
                }
            }
        }
    }

    /// Sends and expects success.
    pub fn call<M: Message, A: Message>(&self, request: u32, message: M, tail: &[u8]) -> (A, Value) {
        self.send(request, message, tail);
        let frame = self.until_end(request).pop().unwrap();
        (read(&frame), lean_protocol::json::parse(frame.tail()).unwrap_or_default())
    }

    /// Sends and expects an error.
    pub fn fails<M: Message>(&self, request: u32, message: M, tail: &[u8]) -> m::Failed {
        self.send(request, message, tail);
        read(&self.until_end(request).pop().unwrap())
    }

    #[allow(dead_code)]
    pub fn load(&self, path: &str) -> u32 {
        let load = m::Load { path: path.into(), ..Default::default() };
        self.call::<_, m::Loaded>(1_000_000, load, b"").0.model
    }
}

pub fn read<M: Message>(frame: &Frame) -> M {
    assert_eq!(frame.kind, M::KIND, "{:?}", m::decode_any(frame.kind, frame.head(), 0));
    decode_head(frame.head(), 0).unwrap()
}

#[allow(dead_code)]
pub fn on_model(model: u32) -> m::Generate {
    m::Generate { model: Some(model), events: true, ..Default::default() }
}

/// The text of all TOKENS frames.
#[allow(dead_code)]
pub fn text(frames: &[Frame]) -> String {
    let tokens = frames.iter().filter(|f| f.kind == m::Tokens::KIND);
    tokens.map(|f| std::str::from_utf8(f.tail()).unwrap()).collect()
}
