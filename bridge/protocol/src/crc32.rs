//! CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320), the one of zlib, PNG and gzip.
//!
//! It guards a blob's way through the chunks (order, gaps, losses) and is at hand in every language. Whether
//! the blob itself is sound is the business of the digest inside it.

/// Continues a checksum; start with 0.
pub fn update(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The checksum of all bytes at once.
pub fn crc32(bytes: &[u8]) -> u32 {
    update(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_values() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
    }

    #[test]
    fn does_not_depend_on_the_cuts() {
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 13) as u8).collect();
        for cut in 0..40 {
            assert_eq!(update(crc32(&data[..cut * 25]), &data[cut * 25..]), crc32(&data));
        }
    }
}
