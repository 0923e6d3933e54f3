//! A cheap, content-derived identity of a model file.

use super::source::Source;
use super::tensors::TensorInfo;
use crate::error::Result;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Changes whenever what is hashed changes, so that identities of two versions never meet.
const SEED: u64 = 1;
/// Bytes of one sample.
const WINDOW: u64 = 256;
/// Samples of a tensor, the first at its start and the last at its end.
const WINDOWS: u64 = 8;
/// Bytes of the header hashed at once.
const CHUNK: u64 = 64 * 1024;

/// XXH3-64 over the header (`0 .. header_bytes`: version, metadata, tensor table) and samples of each
/// tensor in table order. The same for the same bytes, whatever the source.
pub(super) fn fingerprint<'a>(
    source: &Source,
    header_bytes: u64,
    tensors: impl Iterator<Item = &'a TensorInfo>,
) -> Result<u64> {
    let mut hash = XxHash3_64::with_seed(SEED);
    let mut buffer = vec![0; CHUNK as usize];
    let mut feed = |from: u64, len: u64| -> Result<()> {
        let mut at = 0;
        while at < len {
            let n = (len - at).min(CHUNK);
            let part = &mut buffer[..n as usize];
            source.read_at(from + at, part)?;
            hash.write(part);
            at += n;
        }
        Ok(())
    };
    feed(0, header_bytes)?;
    for t in tensors {
        if t.bytes <= WINDOW * WINDOWS {
            feed(t.offset, t.bytes)?;
            continue;
        }
        let last = t.bytes - WINDOW;
        for i in 0..WINDOWS {
            feed(t.offset + (u128::from(last) * u128::from(i) / u128::from(WINDOWS - 1)) as u64, WINDOW)?;
        }
    }
    Ok(hash.finish())
}
