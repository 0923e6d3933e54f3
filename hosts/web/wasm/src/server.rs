//! The server of the bridge as calls of a worker.

use crate::worker::{self, Worker};
use crate::{ask, host};
use lean_engine::event_loop;
use lean_protocol::{FrameReader, MAGIC, MAX_FRAME_DEFAULT};
use lean_server::echo::EchoHost;
use lean_server::{turn, Connection, Ended};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    /// Whoever hears of cancels in the middle of a request.
    static CONNECTION: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
}

/// A connection with the client on the page. One an instance.
#[wasm_bindgen]
pub struct Server {
    connection: Rc<Connection>,
    reader: RefCell<FrameReader>,
}

#[wasm_bindgen]
impl Server {
    /// Greets at once.
    #[wasm_bindgen(constructor)]
    pub fn new(worker: Worker) -> Server {
        worker::set(worker);
        host::report_panics();
        host::ask(look);
        // SAFETY: as in `suspend`.
        if unsafe { gpu() } != 0 {
            event_loop::set(event_loop::Host { turn: suspend, wake: resume, lost });
        }
        write(&MAGIC);
        let connection = Rc::new(Connection::with_sink(Arc::new(EchoHost(host::WebHost)), |frame| {
            let mut bytes = Vec::new();
            frame.encode_into(&mut bytes);
            write(&bytes);
        }));
        CONNECTION.set(Some(connection.clone()));
        Server { connection, reader: RefCell::new(FrameReader::new(MAX_FRAME_DEFAULT)) }
    }

    /// Takes bytes of the client. Nothing is computed before [`Server::run`].
    pub fn receive(&self, bytes: &[u8]) {
        let mut reader = self.reader.borrow_mut();
        reader.push(bytes);
        loop {
            reader.set_max_frame(self.connection.max_frame());
            match reader.next_frame() {
                Ok(Some(frame)) => self.connection.submit(frame),
                Ok(None) => return,
                Err(error) => return self.connection.reject(error),
            }
        }
    }

    /// Lets every request run as far as it can, or until its next pause; says whether there is more to do.
    pub fn run(&self) -> bool {
        turn::run()
    }

    /// Whether the connection ended by itself, as the exit status of a bridge: 0 after SHUTDOWN, 2 after bytes that
    /// are not the protocol.
    pub fn ended(&self) -> Option<u32> {
        self.connection.ended().map(|ended| match ended {
            Ended::Shutdown => 0,
            Ended::Protocol => 2,
        })
    }

    /// The client will send nothing more: everything is cancelled.
    pub fn close(&self) {
        self.connection.close();
    }

    /// Answers a question beside the protocol: a name and JSON in, JSON out.
    pub fn ask(&self, name: &str, question: &str) -> String {
        ask::ask(name, question)
    }

    /// Bytes of memory that the instance has.
    pub fn memory_bytes(&self) -> f64 {
        core::arch::wasm32::memory_size(0) as f64 * 65536.0
    }
}

#[link(wasm_import_module = "../suspend.js")]
extern "C" {
    /// Suspends the call of [`Server::run`] until `wake`, or for some milliseconds. Only where `gpu` says so.
    fn turn();
    /// Ends a `turn`.
    fn wake();
    /// 1 where there is WebGPU and `turn` can wait for it.
    fn gpu() -> i32;
}

fn suspend() {
    // SAFETY: the import has this signature and touches no memory of this instance. Whoever calls the exports begins
    // nothing else while `run` is suspended (`instance.js`).
    unsafe { turn() }
}

fn resume() {
    // SAFETY: as above.
    unsafe { wake() }
}

fn lost(reason: &str) {
    worker::with(|w| w.lost(reason));
}

fn write(bytes: &[u8]) {
    worker::with(|w| w.write(bytes));
}

/// Looks for cancels, which nothing else would hear of while a request computes. They take effect on the flags of
/// their requests; the messages that say the same come later.
fn look() -> bool {
    let ids = worker::with(Worker::cancelled).unwrap_or_default();
    for id in ids {
        let connection = CONNECTION.with_borrow(Clone::clone);
        if let Some(connection) = connection {
            connection.flag(id);
        }
    }
    false
}
