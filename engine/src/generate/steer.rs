//! Ending a value within its budget: a token after which the rest would no longer fit is not taken, and the
//! shortest completion is followed instead.

use super::run::Run;
use crate::constrain::{Steer, TypeSource};
use crate::error::{Error, Result};

impl Run {
    /// At the start of a value, or of the rest of one.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`], or [`Error::ContextOverflow`] where the context is the budget, if not even the
    /// shortest completion fits.
    pub(super) fn start_steering(&mut self) -> Result<()> {
        // Plain text may end anywhere.
        if self.matcher.is_some() && !matches!(self.request.ty.source(), TypeSource::Text { .. }) {
            self.steer = Some(Steer::new(&self.request.ty)?);
        }
        Ok(())
    }

    /// Refuses a budget that cannot hold the value.
    pub(super) fn check_budget(&mut self) -> Result<()> {
        let remaining = self.remaining();
        let (Some(steer), Some(matcher)) = (&mut self.steer, &self.matcher) else { return Ok(()) };
        let needed = steer.needed(matcher, remaining)?;
        let (total, spent) = (self.seq.tokens.len(), self.seq.tokens.len() - self.start);
        match self.request.options.max_tokens {
            _ if needed <= remaining => Ok(()),
            Some(_) => Err(Error::BudgetTooSmall { needed: spent + needed }),
            None => Err(Error::ContextOverflow { needed: total + needed, available: self.seq.capacity }),
        }
    }

    /// The token to take where one was chosen from logits, and whether the budget left no other; `None` where
    /// it leaves only the end of the value.
    pub(super) fn steered(&mut self, id: u32, bytes: &[u8]) -> Result<Option<(u32, bool)>> {
        let left = self.remaining().saturating_sub(1);
        let (Some(steer), Some(matcher)) = (&mut self.steer, &self.matcher) else {
            return Ok(Some((id, false)));
        };
        if steer.admits(id, bytes, matcher, left)? {
            return Ok(Some((id, false)));
        }
        Ok(steer.fallback(matcher)?.map(|shortest| (shortest, shortest != id)))
    }
}
