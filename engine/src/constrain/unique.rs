//! Different items. A grammar cannot say that the items of an array differ, so the text is followed beside it, and
//! tokens after which an item would be equal to an earlier one are taken away, and those after which it could not
//! become different any more.

use super::shortest::{Place, ESCAPED};
use super::vocabulary::Vocabulary;
use super::Type;
use crate::backend::Mask;
use crate::error::Result;
use serde_json::Value;

/// Where a text stands, in a type that has arrays without equal items.
#[derive(Clone)]
pub(super) struct Unique {
    place: Place,
    /// Whether the keys of objects must differ as well: elsewhere these are followed apart.
    keys: bool,
    /// Bytes that may be written into the string that the text stands in, whatever they are unless they end it.
    room: usize,
}

/// Bytes looked ahead for such room, and those of which more are not worth another look.
const AHEAD: usize = 64;
const ENOUGH: usize = 16;

/// See [`Unique::free`].
enum Free {
    All,
    /// Those of at most so many bytes, and fewer if there are escapes in them.
    Up(usize),
    None,
}

/// The tokens of a mask.
fn allowed(mask: &Mask) -> Vec<u32> {
    let bits = |(i, w): (usize, &u32)| {
        let w = *w;
        (0..32).filter(move |b| w >> b & 1 == 1).map(move |b| i as u32 * 32 + b)
    };
    mask.words.iter().enumerate().filter(|(_, w)| **w != 0).flat_map(bits).collect()
}

impl Unique {
    /// At the start of a value; `None` if nothing in the type has to differ.
    pub fn of(ty: &Type) -> Result<Option<Self>> {
        // In a reply there is text beside the values, which the follower of keys does not know.
        let keys = ty.is_reply() && ty.0.emitted.open_keys;
        if !keys && !ty.has_unique() {
            return Ok(None);
        }
        Ok(Some(Unique { place: Place::new(ty)?, keys, room: 0 }))
    }

    /// Takes tokens out of a mask that the grammar allows.
    pub fn restrict(&mut self, mask: &mut Mask, vocabulary: &Vocabulary) -> Result<()> {
        let (inside, endless, quoted) = self.place.unique()?;
        let free = self.free(inside, endless, quoted)?;
        let place = &mut self.place;
        let mut check = |mask: &mut Mask, ids: &[u32]| {
            vocabulary.strike(mask, ids.iter().copied(), |bytes| place.goes_on(bytes))
        };
        match free {
            Free::None => return check(mask, &allowed(mask)),
            Free::Up(bytes) => {
                check(mask, vocabulary.longer(bytes))?;
                let long = |id: &u32| vocabulary.bytes(*id).len() + ESCAPED > bytes;
                check(mask, &vocabulary.escaping().iter().copied().filter(long).collect::<Vec<_>>())?;
            }
            Free::All => {}
        }
        // What neither ends a string nor begins an array makes nothing equal.
        if self.keys || inside {
            check(mask, vocabulary.quoting())?;
        }
        if !inside {
            let quoting = |id: &u32| !quoted || vocabulary.bytes(*id).contains(&b'"');
            check(mask, &vocabulary.opening().iter().copied().filter(quoting).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// The same, looking for a completion behind each token.
    #[cfg(test)]
    pub fn restrict_slowly(&mut self, mask: &mut Mask, vocabulary: &Vocabulary) -> Result<()> {
        let all = allowed(mask);
        vocabulary.strike(mask, all, |bytes| self.place.goes_on_if(bytes, false))
    }

    /// Which tokens make nothing equal, whatever they are, unless they have a quote or a bracket.
    fn free(&mut self, inside: bool, endless: bool, quoted: bool) -> Result<Free> {
        if !inside || endless {
            return Ok(Free::All);
        }
        if quoted && self.room < ENOUGH {
            self.room = self.place.room(AHEAD)?;
        }
        Ok(if quoted && self.room > 0 { Free::Up(self.room) } else { Free::None })
    }

    /// Whether the text may go on so.
    pub fn allows(&mut self, bytes: &[u8]) -> Result<bool> {
        self.place.goes_on(bytes)
    }

    pub fn advance(&mut self, bytes: &[u8]) -> Result<()> {
        let escapes = if bytes.contains(&b'\\') { ESCAPED } else { 0 };
        self.room = if bytes.contains(&b'"') { 0 } else { self.room.saturating_sub(bytes.len() + escapes) };
        self.place.advance(bytes).map(drop)
    }
}

/// A text that is the same for equal values, whatever they are written like, and different for others.
pub(super) fn same_as(text: &[u8]) -> Vec<u8> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return text.to_vec() };
    let mut out = String::new();
    write(&value, &mut out);
    out.into_bytes()
}

/// Values nest 128 deep at most: parsing sees to it.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in pairs {
                out.push_str(&super::json_text(key));
                out.push(':');
                write(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
            // A double that is an integer of 64 bits is equal to it.
            Some(f) if f.fract() == 0.0 && f.abs() < 1.8e19 => out.push_str(&format!("{}", f as i128)),
            _ => out.push_str(&n.to_string()),
        },
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::same_as;

    #[test]
    fn equal_values_are_the_same_however_they_are_written() {
        for (a, b, same) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("0", "-0", true),
            ("100", "1e2", true),
            ("1", "true", false),
            ("\"1\"", "1", false),
            ("9007199254740993", "9007199254740992", false),
            ("18446744073709551615", "18446744073709551614", false),
            ("\"\\u0041\"", "\"A\"", true),
            ("\"\\n\"", "\"\\u000a\"", true),
            ("{\"a\":1,\"b\":2}", "{\"b\":2.0,\"a\":1}", true),
            ("{\"a\":1}", "{\"a\":1,\"b\":2}", false),
            ("[1,2]", "[2,1]", false),
            ("[[1],[]]", "[[1,[]]]", false),
            ("null", "\"null\"", false),
        ] {
            assert_eq!(same_as(a.as_bytes()) == same_as(b.as_bytes()), same, "{a} and {b}");
        }
    }
}
