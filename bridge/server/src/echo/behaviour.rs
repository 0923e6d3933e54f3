//! What an echo model does besides echoing.

use lean_engine::{CancelToken, Error, Result};
use std::time::Duration;
use web_time::Instant;

/// Parsed from the load path: `echo`, or `echo?` and `name=number` pairs joined by `&`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Milliseconds that each token and each prefill chunk takes.
    pub step_ms: u32,
    /// Milliseconds that each step of a load takes.
    pub load_ms: u32,
    /// Steps of a load.
    pub load_steps: u32,
    /// Panics instead of making this token of a value (counted from 0).
    pub panic_at: Option<u32>,
    /// Fails with [`Error::DeviceLost`] instead of making this token.
    pub fail_at: Option<u32>,
}

impl Behaviour {
    /// `None` if the path is no echo model.
    pub fn from_path(path: &str) -> Result<Option<Self>> {
        let query = match path.strip_prefix("echo") {
            Some("") => return Ok(Some(Self::default())),
            Some(rest) => rest.strip_prefix('?'),
            None => None,
        };
        let Some(query) = query else { return Ok(None) };
        let mut b = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let n: u32 =
                value.parse().map_err(|_| Error::invalid(format!("echo?{name}"), "a number is needed"))?;
            match name {
                "step_ms" => b.step_ms = n,
                "load_ms" => b.load_ms = n,
                "load_steps" => b.load_steps = n.min(10_000),
                "panic_at" => b.panic_at = Some(n),
                "fail_at" => b.fail_at = Some(n),
                _ => {
                    let known = "step_ms, load_ms, load_steps, panic_at, fail_at";
                    return Err(Error::invalid(
                        format!("echo?{name}"),
                        format!("unknown; known are {known}"),
                    ));
                }
            }
        }
        Ok(Some(b))
    }

    /// Stands in for work: takes that long, unless cancelled.
    pub(super) fn pause(&self, ms: u32, cancel: &CancelToken) -> Result<()> {
        let end = Instant::now() + Duration::from_millis(ms as u64);
        loop {
            cancel.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            crate::turn::sleep(left.min(Duration::from_millis(2)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(Behaviour::from_path("echo").unwrap(), Some(Behaviour::default()));
        let b = Behaviour::from_path("echo?step_ms=5&panic_at=0").unwrap().unwrap();
        assert_eq!((b.step_ms, b.panic_at, b.fail_at), (5, Some(0), None));
        for other in ["echo.gguf", "models/echo", "", "echoes?x=1"] {
            assert_eq!(Behaviour::from_path(other).unwrap(), None, "{other}");
        }
        for bad in ["echo?", "echo?step_ms", "echo?step_ms=-1", "echo?sped_ms=1"] {
            assert!(Behaviour::from_path(bad).is_err(), "{bad}");
        }
    }
}
