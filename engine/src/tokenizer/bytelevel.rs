//! GPT-2's byte alphabet: how vocabularies of byte-level BPE spell arbitrary bytes as printable characters.

/// The character that stands for a byte: printable Latin-1 stands for itself, the 68 others for U+0100 onward.
#[cfg(test)]
pub(super) fn byte_to_char(byte: u8) -> char {
    let code = match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => u32::from(byte),
        0x00..=0x20 => 0x100 + u32::from(byte),
        0x7F..=0xA0 => 0x121 + u32::from(byte) - 0x7F,
        0xAD => 0x143,
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte a character stands for; `None` outside the alphabet.
pub(super) fn char_to_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Appends the bytes a spelling stands for. False, and nothing appended, if a character is outside the alphabet.
pub(super) fn unspell(spelling: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for c in spelling.chars() {
        match char_to_byte(c) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_bijection() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255 {
            let c = byte_to_char(byte);
            assert!(seen.insert(c), "{c:?} stands for two bytes");
            assert_eq!(char_to_byte(c), Some(byte));
            assert!(!c.is_whitespace() && !c.is_control(), "{c:?} is not printable");
        }
        assert_eq!((byte_to_char(b' '), byte_to_char(b'\n'), byte_to_char(0xAD)), ('Ġ', 'Ċ', 'Ń'));
        assert_eq!(char_to_byte('世'), None);
    }

    #[test]
    fn unspell_appends_all_or_nothing() {
        let mut out = b"x".to_vec();
        assert!(unspell("ĠÃ¼", &mut out));
        assert_eq!(out, "x ü".as_bytes());
        assert!(!unspell("Ġ世", &mut out));
        assert_eq!(out, "x ü".as_bytes());
    }
}
