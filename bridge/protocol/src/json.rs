//! JSON tails: parsed only after their depth is known to be bounded.

use crate::{WireError, JSON_DEPTH_MAX};
use serde_json::Value;

/// Parses a tail; malformed documents and ones nested more than [`JSON_DEPTH_MAX`] deep are refused.
pub fn parse(tail: &[u8]) -> Result<Value, WireError> {
    if depth(tail) > JSON_DEPTH_MAX {
        return Err(WireError::Json { reason: format!("nested more than {JSON_DEPTH_MAX} levels deep") });
    }
    serde_json::from_slice(tail).map_err(|e| WireError::Json { reason: e.to_string() })
}

/// The deepest nesting of brackets outside strings. Needs no valid document: brackets of either shape count.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for &b in bytes {
        if in_string {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Vec<u8> {
        let mut s = "[".repeat(levels);
        s.push_str(&"]".repeat(levels));
        s.into_bytes()
    }

    #[test]
    fn the_limit_is_exact() {
        assert!(parse(&nested(64)).is_ok());
        assert_eq!(parse(&nested(65)).unwrap_err().name(), "bad_json");
        assert_eq!(parse(&nested(100_000)).unwrap_err().name(), "bad_json");
    }

    #[test]
    fn brackets_inside_strings_do_not_count() {
        let text = format!("\"{}\\\"{}\"", "[".repeat(200), "{".repeat(200));
        assert!(parse(text.as_bytes()).is_ok());
    }
}
