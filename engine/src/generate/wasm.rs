//! Without threads a mask is computed when it is needed.

use crate::constrain::Matcher;

/// A matcher whose next mask is being computed.
pub(super) enum Ahead {}

impl Ahead {
    /// The matcher comes back.
    pub fn start(matcher: Matcher) -> Result<Self, Matcher> {
        Err(matcher)
    }

    /// Never called: nothing was begun.
    pub fn wait(self) -> Option<(Matcher, f64)> {
        match self {}
    }
}
