//! Optional compression of a checkpoint's state: zstd over byte planes.
//!
//! The low bytes of a float's mantissa look random, its sign and exponent do not. Byte `p` of every element goes to
//! plane `p`, so that zstd meets the repetitive bytes together and stores the others as they are.

use crate::error::{try_zeroed, Error, Result};
use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{compress_to_vec, CompressionLevel};

/// What the file calls this compression.
pub const CODEC: &str = "zstd";

/// State never shrinks further than this; a file that says so wants our memory.
const MOST_EXPANSION: usize = 64;

/// `bytes`, elements of `planes` bytes each, compressed; `None` where that saves nothing.
pub fn pack(bytes: &[u8], planes: usize) -> Result<Option<Vec<u8>>> {
    let mut split: Vec<u8> = try_zeroed(bytes.len(), "checkpoint compression")?;
    let rows = bytes.len() / planes;
    for (i, element) in bytes.chunks_exact(planes).enumerate() {
        for (p, byte) in element.iter().enumerate() {
            split[p * rows + i] = *byte;
        }
    }
    // What is no whole element stays at the end.
    split[rows * planes..].copy_from_slice(&bytes[rows * planes..]);
    let packed = compress_to_vec(split.as_slice(), CompressionLevel::Fastest);
    let useful = packed.len() < bytes.len() && bytes.len() / MOST_EXPANSION < packed.len();
    Ok(useful.then_some(packed))
}

/// The `len` bytes that were packed. What is allocated is bounded by the packed bytes' number.
pub fn unpack(packed: &[u8], planes: usize, len: usize) -> Result<Vec<u8>> {
    let bad = |reason: String| Error::bad_checkpoint("KV", reason);
    if !(1..=16).contains(&planes) {
        return Err(bad(format!("elements of {planes} bytes")));
    }
    if len / MOST_EXPANSION >= packed.len().max(1) {
        return Err(bad(format!("{} compressed bytes cannot be {len} bytes of state", packed.len())));
    }
    let mut split: Vec<u8> = try_zeroed(len, "checkpoint state")?;
    let got = FrameDecoder::new().decode_all(packed, &mut split).map_err(|e| bad(format!("zstd: {e}")))?;
    if got != len {
        return Err(bad(format!("{got} bytes after decompression, expected {len}")));
    }
    let mut bytes: Vec<u8> = try_zeroed(len, "checkpoint state")?;
    let rows = len / planes;
    for (i, element) in bytes.chunks_exact_mut(planes).enumerate() {
        for (p, byte) in element.iter_mut().enumerate() {
            *byte = split[p * rows + i];
        }
    }
    bytes[rows * planes..].copy_from_slice(&split[rows * planes..]);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Floats of one magnitude, as keys and values are.
    fn floats(n: usize) -> Vec<u8> {
        (0..n as u32)
            .flat_map(|i| ((i.wrapping_mul(2654435761) as f32 / 2f32.powi(32)) - 0.5).to_le_bytes())
            .collect()
    }

    #[test]
    fn what_is_packed_comes_back_and_is_smaller() {
        for (len, planes) in [(4096 * 4, 4), (4096 * 4 + 3, 4), (9000, 3), (40_000, 2)] {
            let bytes = &floats(20_000)[..len];
            let packed = pack(bytes, planes).unwrap();
            assert!(packed.is_some() || planes != 4, "floats by their bytes are smaller");
            if let Some(packed) = &packed {
                assert!(packed.len() < bytes.len(), "{len} bytes, {planes} planes");
                assert_eq!(unpack(packed, planes, len).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn noise_and_nothing_are_not_packed() {
        assert_eq!(pack(&[], 4).unwrap(), None);
        let mut x = 1u64;
        let noise: Vec<u8> = (0..5000)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 56) as u8
            })
            .collect();
        assert_eq!(pack(&noise, 4).unwrap(), None);
    }

    #[test]
    fn hostile_bytes_are_errors_and_cost_no_memory() {
        let bytes = floats(8192);
        let packed = pack(&bytes, 4).unwrap().unwrap();
        let huge = usize::MAX / 2;
        for (packed, planes, len) in [
            (&packed[..], 4, huge),
            (&packed[..], 0, bytes.len()),
            (&packed[..], 4, bytes.len() - 1),
            (&packed[..], 4, bytes.len() + 1),
            (&packed[..packed.len() / 2], 4, bytes.len()),
            (&[], 4, 16),
        ] {
            assert!(
                matches!(unpack(packed, planes, len), Err(Error::BadCheckpoint { .. })),
                "{planes} {len}"
            );
        }
        for at in 0..packed.len().min(400) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x41;
            // Either it says so or the bytes differ: checksums are the file's own.
            let _ = unpack(&damaged, 4, bytes.len());
        }
    }
}
