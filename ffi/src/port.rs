//! The bridge's protocol inside the process: what a client of a spawned bridge speaks, without the process.

use crate::bytes::{self, lean_bytes};
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::status::{lean_status, LEAN_END, LEAN_OK, LEAN_PENDING};
use crate::stream::LEAN_WAIT_FOREVER;
use lean_server::echo::EchoHost;
use lean_server::engine::EngineHost;
use lean_server::pipe::{Phase, Pipe, Received, Sent};
use lean_server::Ended;
use std::sync::Arc;
use std::time::Duration;

/// The port is in use.
pub const LEAN_PORT_OPEN: i32 = 0;
/// It was closed by lean_port_close before it ended by itself. A bridge process exits with status 0 then.
pub const LEAN_PORT_CLOSED: i32 = 1;
/// SHUTDOWN was asked for and answered. A bridge process exits with status 0 then.
pub const LEAN_PORT_SHUTDOWN: i32 = 2;
/// What was sent was not the protocol; the last frame says why. A bridge process exits with status 2 then.
pub const LEAN_PORT_PROTOCOL: i32 = 3;

/// A bridge inside this process, for clients that speak the protocol of `lean-bridge` (bridge/PROTOCOL.md): the
/// bytes that one would write to its stdin and read from its stdout, and nothing else differs. It has models, sessions
/// and checkpoints of its own, which the other functions of this header do not see.
///
/// Typically one thread receives and others send. All functions but lean_port_free may be called from any threads at
/// once. A port does not survive a fork of the process.
pub struct lean_port {
    _opaque: [u8; 0],
}
opaque!(lean_port, Pipe, b"port");

/// Opens a port; close it when it is not needed any more, and free it. It has a thread of its own, and one for each
/// request that runs. `LEAN_BUSY` if the system gives it none.
#[no_mangle]
pub unsafe extern "C" fn lean_port_open(
    port: *mut *mut lean_port,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        let port = Out::new("port", port)?;
        port.set(handle::new(Pipe::open(Arc::new(EchoHost(EngineHost)))?));
        Ok(())
    })
}

/// Sends bytes of the host's stream: frames, cut anywhere, with no magic before them. They are copied. What is no
/// frame is no error here: an ERROR frame tells of it, as from a process.
///
/// Either all bytes are taken, or none: `LEAN_PENDING` if for `timeout_ms` milliseconds (0: do not wait;
/// `LEAN_WAIT_FOREVER`) too many were waiting to be handled, which is 256 KiB, and happens while nobody receives
/// what the port has to say; `LEAN_END` if the port has ended or is closed. Bytes of which the port has no need any
/// more, since it ended while they were waiting, are thrown away.
#[no_mangle]
pub unsafe extern "C" fn lean_port_send(
    port: *const lean_port,
    data: *const u8,
    length: usize,
    timeout_ms: u32,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [port], {
        let pipe = handle::get(port)?;
        let data = input::slice("data", data, length)?;
        Ok(match pipe.send(data, timeout(timeout_ms))? {
            Sent::All => LEAN_OK,
            Sent::None => LEAN_PENDING,
            Sent::Ended => LEAN_END,
        })
    })
}

/// Receives the next bytes of the bridge's stream: one or several whole frames, the first time with the 8 bytes of the
/// magic before them. The caller frees them with lean_bytes_free.
///
/// `LEAN_PENDING` if nothing came within `timeout_ms` milliseconds (0: what is there already; `LEAN_WAIT_FOREVER`);
/// `LEAN_END` once nothing will come any more: the port has ended and all of it was received, or it is closed. A call
/// that waits gets `LEAN_END` at once when another thread closes the port. Of several threads that receive, each gets
/// different frames.
#[no_mangle]
pub unsafe extern "C" fn lean_port_recv(
    port: *const lean_port,
    timeout_ms: u32,
    bytes: *mut *mut lean_bytes,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [port], {
        let pipe = handle::get(port)?;
        let out = Out::new("bytes", bytes)?;
        Ok(match pipe.recv(timeout(timeout_ms)) {
            Received::Bytes(data) => {
                out.set(bytes::raw(data));
                LEAN_OK
            }
            Received::None => LEAN_PENDING,
            Received::Ended => LEAN_END,
        })
    })
}

/// How far the port is: `LEAN_PORT_*`. One that has ended by itself may still have frames to receive.
#[no_mangle]
pub unsafe extern "C" fn lean_port_state(
    port: *const lean_port,
    state: *mut i32,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [port], {
        let pipe = handle::get(port)?;
        Out::new("state", state)?.set(match pipe.phase() {
            Phase::Open => LEAN_PORT_OPEN,
            Phase::Closed => LEAN_PORT_CLOSED,
            Phase::Ended(Ended::Shutdown) => LEAN_PORT_SHUTDOWN,
            Phase::Ended(Ended::Protocol) => LEAN_PORT_PROTOCOL,
        });
        Ok(())
    })
}

/// Ends the port as the end of stdin ends a process, and may be called while other threads send and receive: what
/// runs is cancelled, what was not received is thrown away, models and checkpoints are freed, and calls that wait get
/// `LEAN_END`. Returns when no thread of the port runs any more, which takes a step of the engine or a layer of a
/// prefill. Again, it waits for the same and does nothing else. Not from a log callback, whose thread it may wait for.
#[no_mangle]
pub unsafe extern "C" fn lean_port_close(port: *const lean_port, error: *mut *mut lean_error) -> lean_status {
    guarded!(error, [port], {
        let pipe = handle::even_poisoned(port)?;
        pipe.close();
        Ok(())
    })
}

/// Closes the port, if that was not done, and frees it. NULL does nothing. No other call on it may be under way: close
/// it first, and wait for those that it wakes.
#[no_mangle]
pub unsafe extern "C" fn lean_port_free(port: *mut lean_port) {
    // SAFETY: the header's rules.
    unsafe { handle::free(port) }
}

fn timeout(ms: u32) -> Option<Duration> {
    (ms != LEAN_WAIT_FOREVER).then(|| Duration::from_millis(ms.into()))
}
