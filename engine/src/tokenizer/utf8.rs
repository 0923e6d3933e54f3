//! Incremental decoding of UTF-8.

/// Turns bytes that arrive piecemeal into text, never splitting a character.
///
/// The texts of all calls together equal `String::from_utf8_lossy` of all bytes together, however they are cut.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Utf8Stream {
    /// The start of a character that is not complete yet: at most 3 bytes.
    pub pending: Vec<u8>,
}

impl Utf8Stream {
    /// Adds bytes, returns the text that is complete. Invalid bytes become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(e) => {
                    let (valid, bad) = rest.split_at(e.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match e.error_len() {
                        Some(len) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = &bad[len..];
                        }
                        None => {
                            rest = bad;
                            break;
                        }
                    }
                }
            }
        }
        let done = self.pending.len() - rest.len();
        self.pending.drain(..done);
        text
    }

    /// What is left at the end, as U+FFFD if incomplete.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift64*: the same sequence on every run.
    struct Rng(u64);
    impl Rng {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
        }
    }

    #[test]
    fn any_cut_of_any_bytes_equals_lossy_decoding_of_the_whole() {
        let rng = &mut Rng(7);
        let pieces: [&[u8]; 12] = [
            b"a",
            "é".as_bytes(),
            "世".as_bytes(),
            "🙂".as_bytes(),
            "👨\u{200d}👩".as_bytes(),
            b"\xff",
            b"\xe4\xb8",
            b"\xf0\x9f\x99",
            b"\x80",
            b"\xc0\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
        ];
        for round in 0..3000 {
            let mut bytes = Vec::new();
            for _ in 0..rng.below(12) {
                match round % 3 {
                    0 => bytes.push(rng.below(256) as u8),
                    _ => bytes.extend_from_slice(pieces[rng.below(pieces.len())]),
                }
            }
            let (mut stream, mut text, mut rest) = (Utf8Stream::default(), String::new(), bytes.as_slice());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + rng.below(rest.len()));
                text += &stream.push(now);
                assert!(stream.pending.len() <= 3);
                // What a checkpoint keeps is enough to go on.
                stream = Utf8Stream { pending: stream.pending.clone() };
                rest = later;
            }
            text += &stream.finish();
            assert_eq!(text, String::from_utf8_lossy(&bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn a_character_appears_only_when_complete() {
        let mut stream = Utf8Stream::default();
        let shown: Vec<String> = "é🙂".bytes().map(|b| stream.push(&[b])).collect();
        assert_eq!(shown, ["", "é", "", "", "", "🙂"]);
        assert_eq!(stream.finish(), "");
    }
}
