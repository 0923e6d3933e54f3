//! `lean-bridge`: the engine as a child process that talks frames over stdin and stdout.
#![deny(missing_docs)]

mod arguments;
mod parent;
mod stdio;

use arguments::Arguments;
use lean_protocol::{FrameReader, MAGIC};
use lean_server::bytes;
use lean_server::echo::EchoHost;
use lean_server::engine::EngineHost;
use lean_server::{Connection, Ended};
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Exit status when the arguments are wrong or the process was not spawned by a host.
const STATUS_USAGE: u8 = 1;
/// Exit status after a protocol error.
const STATUS_PROTOCOL: u8 = 2;
/// How long workers get to notice that they are cancelled before the process ends under them.
const GRACE: Duration = Duration::from_millis(150);
/// How long the last frames may take to be read by the host.
const LAST_FRAMES: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    #[cfg(feature = "gpu")]
    lean_server::engine::without_mesas_device_selection();
    let arguments = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(a) => a,
        Err(exit) => return exit.print(),
    };
    if stdio::is_terminal() {
        eprint!("{}", arguments::SPAWNED_BY_HOSTS);
        return ExitCode::from(STATUS_USAGE);
    }
    let (input, output) = match stdio::take() {
        Ok(streams) => streams,
        Err(e) => {
            eprintln!("lean-bridge: stdin and stdout cannot be used: {e}");
            return ExitCode::from(STATUS_USAGE);
        }
    };
    stdio::ignore_interrupts();
    let connection = Arc::new(Connection::open(Arc::new(EchoHost(EngineHost))));
    if let Some(pid) = arguments.parent_pid {
        let connection = connection.clone();
        let watched = parent::on_exit(pid, move || {
            connection.close();
            connection.wait_idle(GRACE);
            std::process::exit(0);
        });
        if let Err(e) = watched {
            eprintln!("lean-bridge: cannot watch process {pid}: {e}");
            return ExitCode::from(STATUS_USAGE);
        }
    }
    let reader = connection.clone();
    std::thread::spawn(move || {
        let patience = read(&reader, input);
        // Normally the main thread is gone by now; it is not where the host does not read its output.
        std::thread::sleep(patience);
        std::process::exit(status(&reader).into());
    });
    write(&connection, output);
    connection.close();
    connection.wait_idle(GRACE);
    ExitCode::from(status(&connection))
}

fn status(connection: &Connection) -> u8 {
    match connection.ended() {
        Some(Ended::Protocol) => STATUS_PROTOCOL,
        Some(Ended::Shutdown) | None => 0,
    }
}

/// Feeds the connection until the input or the connection ends; answers how long the rest may take.
fn read(connection: &Connection, mut input: impl Read) -> Duration {
    let mut reader = FrameReader::new(connection.max_frame());
    let mut buffer = vec![0; bytes::READ_BYTES];
    loop {
        let n = match input.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            // A host that died is gone as one that closed.
            Err(_) => 0,
        };
        if n == 0 {
            // Half a frame from a host that is gone has nobody left to tell.
            connection.close();
            return GRACE;
        }
        bytes::feed(connection, &mut reader, &buffer[..n]);
        if connection.ended().is_some() {
            return LAST_FRAMES;
        }
    }
}

/// Writes frames until there will be none; a host that cannot be written to is gone.
fn write(connection: &Connection, mut output: impl Write) {
    let mut out = MAGIC.to_vec();
    while let Ok(some) = bytes::take(connection, None, &mut out) {
        if some && output.write_all(&out).and_then(|()| output.flush()).is_err() {
            return;
        }
        out.clear();
    }
}
