//! JSON pointers (RFC 6901) and the fragments of references.

use serde_json::Value;

/// One step of a pointer, escaped.
pub(super) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// The value at a pointer.
pub(super) fn get<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    root.pointer(pointer)
}

/// Undoes percent encoding; `None` if malformed.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_string());
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        if b == b'%' {
            let hex = text.get(i + 1..i + 3)?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            i += 3;
        } else {
            out.push(b);
            i += 1;
        }
    }
    String::from_utf8(out).ok()
}
