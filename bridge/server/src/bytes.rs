//! A connection's two streams of bytes, the same whatever carries them.

use crate::Connection;
use lean_protocol::FrameReader;
use std::time::Duration;

/// Bytes handed to the frame reader at once: with one frame of the maximum, all that it holds.
pub const READ_BYTES: usize = 64 << 10;
/// Frames are joined into pieces of about this size, where several are waiting.
pub const WRITE_BYTES: usize = 64 << 10;

/// Submits the frames that are complete with these bytes. What is no frame ends the connection.
pub fn feed(connection: &Connection, reader: &mut FrameReader, bytes: &[u8]) {
    for piece in bytes.chunks(READ_BYTES) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => connection.submit(frame),
                Ok(None) => break,
                Err(e) => return connection.reject(e),
            }
            reader.set_max_frame(connection.max_frame());
        }
        if connection.ended().is_some() {
            return;
        }
    }
}

/// Waits for frames and appends as many whole ones as are there, up to about [`WRITE_BYTES`]. Answers whether there
/// were any within the timeout; `Err(())` once there will be none.
#[allow(clippy::result_unit_err)]
pub fn take(connection: &Connection, timeout: Option<Duration>, out: &mut Vec<u8>) -> Result<bool, ()> {
    match connection.next(timeout)? {
        Some(frame) => frame.encode_into(out),
        None => return Ok(false),
    }
    while out.len() < WRITE_BYTES {
        match connection.next(Some(Duration::ZERO)) {
            Ok(Some(frame)) => frame.encode_into(out),
            _ => break,
        }
    }
    Ok(true)
}
