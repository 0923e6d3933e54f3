//! What a message is: a kind, a direction, and fields in order, each known since some minor.

use crate::wire::{Reader, Writer};
use crate::WireError;
use serde_json::Value;

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the bridge.
    ToBridge,
    /// From the bridge to the host.
    ToHost,
    /// Either way.
    Both,
}

/// A message's head. Implemented by the declarations in [`crate::messages`].
pub trait Message: Sized {
    /// Its number in the frame header.
    const KIND: u16;
    /// Its name in the specification.
    const NAME: &'static str;
    /// Appends the fields that the negotiated minor has.
    fn put(&self, w: &mut Writer, minor: u32);
    /// Reads the fields that the negotiated minor has; the others get their defaults.
    fn get(r: &mut Reader<'_>, minor: u32) -> Result<Self, String>;
    /// The fields by name, for the readable twins.
    fn to_json(&self) -> Value;
}

/// A message's description, for tests, tables and documentation.
#[derive(Clone, Copy)]
pub struct MessageSpec {
    /// Its number in the frame header.
    pub kind: u16,
    /// Its name in the specification.
    pub name: &'static str,
    /// Who sends it.
    pub direction: Direction,
    /// Its fields in order: name, type, first minor that has it.
    pub fields: fn() -> Vec<(&'static str, String, u32)>,
    /// Decodes a head into its readable form.
    pub decode: fn(&[u8], u32) -> Result<Value, WireError>,
}

/// The bytes of a head at the negotiated minor.
pub fn encode_head<M: Message>(m: &M, minor: u32) -> Vec<u8> {
    let mut w = Writer::new();
    m.put(&mut w, minor);
    w.into_bytes()
}

/// Decodes a head at the negotiated minor. All of its bytes must be used: what the minor lacks may not be sent.
pub fn decode_head<M: Message>(head: &[u8], minor: u32) -> Result<M, WireError> {
    let mut r = Reader::new(head);
    let bad = |reason| WireError::BadHead { message: M::NAME, reason };
    let m = M::get(&mut r, minor).map_err(bad)?;
    match r.remaining() {
        0 => Ok(m),
        n => Err(bad(format!("{n} bytes too many"))),
    }
}

/// Declares messages. A field that a later minor appended is written `name: Type = minor`.
macro_rules! messages {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal, $label:literal, $dir:ident {
        $( $(#[$fdoc:meta])* $field:ident : $ty:ty $(= $since:literal)? ),* $(,)?
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $name { $( $(#[$fdoc])* pub $field: $ty, )* }

            impl $crate::message::Message for $name {
                const KIND: u16 = $kind;
                const NAME: &'static str = $label;
                #[allow(unused_variables, unused_comparisons)]
                fn put(&self, w: &mut $crate::wire::Writer, minor: u32) {
                    $( if minor >= (0 $(+ $since)?) { $crate::wire::Field::put(&self.$field, w); } )*
                }
                #[allow(unused_variables, unused_comparisons)]
                fn get(r: &mut $crate::wire::Reader<'_>, minor: u32) -> Result<Self, String> {
                    Ok(Self { $( $field: if minor >= (0 $(+ $since)?) {
                        <$ty as $crate::wire::Field>::get(r).map_err(|e| format!("{}: {e}", stringify!($field)))?
                    } else {
                        Default::default()
                    }, )* })
                }
                #[allow(unused_mut)]
                fn to_json(&self) -> serde_json::Value {
                    let mut o = serde_json::Map::new();
                    $( o.insert(stringify!($field).into(), $crate::wire::Field::to_json(&self.$field)); )*
                    serde_json::Value::Object(o)
                }
            }
        )*

        /// Every message of the protocol, by kind.
        pub const ALL: &[$crate::message::MessageSpec] = &[ $( $crate::message::MessageSpec {
            kind: $kind,
            name: $label,
            direction: $crate::message::Direction::$dir,
            fields: || vec![ $( (stringify!($field), <$ty as $crate::wire::Field>::type_name(), 0 $(+ $since)?), )* ],
            decode: |head, minor| {
                $crate::message::decode_head::<$name>(head, minor).map(|m| $crate::message::Message::to_json(&m))
            },
        }, )* ];
    };
}
pub(crate) use messages;
