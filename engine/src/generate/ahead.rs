//! The next mask, computed while the pass runs whose token it is for.

use super::run::Run;
use super::Ahead;
use crate::constrain::Matcher;
use crate::error::{Error, Result};

/// Masks that take less are computed when they are needed: handing one over costs about as much.
const WORTH_IT: f64 = 40e-6;

impl Run {
    /// Has another thread compute the next mask, if the last one took long enough, or is the first.
    pub(super) fn begin_mask(&mut self) {
        let known = self.matcher.as_ref().is_some_and(Matcher::has_mask);
        if known || self.mask_seconds.is_some_and(|s| s < WORTH_IT) {
            return;
        }
        match self.matcher.take().map(Ahead::start) {
            Some(Ok(ahead)) => self.ahead = Some(ahead),
            Some(Err(matcher)) => self.matcher = Some(matcher),
            None => {}
        }
    }

    /// Takes the matcher back.
    pub(super) fn settle_mask(&mut self) -> Result<()> {
        let Some(ahead) = self.ahead.take() else { return Ok(()) };
        let (matcher, seconds) =
            ahead.wait().ok_or_else(|| Error::Panic("while a mask was computed".into()))?;
        (self.matcher, self.mask_seconds) = (Some(matcher), Some(seconds));
        Ok(())
    }
}
