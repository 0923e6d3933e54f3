//! Low-rank updates beside the products with the weights.
//!
//! The product with a matrix runs once for the rows of all sequences; then each sequence that has updates gets
//! its own `factor * B (A x)` on top, in an order that the batch does not change.

use super::pass::{Job, Pass, Rows};
use super::scratch::Shared;
use crate::backend::LowRank;
use crate::error::{Error, Result};
use lean_kernels::lowrank::Shrink;
use std::ops::Range;

/// One update of one product, for the tokens of one sequence.
pub(crate) struct Term<'a> {
    pub(crate) update: &'a LowRank,
    /// The update's own factor times the scale of its use.
    factor: f32,
    /// Rows of the pass.
    pub(crate) tokens: Range<usize>,
    /// `factor * A x` of the first of them, `[token][rank]`.
    low: Shared,
}

impl Term<'_> {
    /// `factor * A x` of a token of the sequence, `[rank]`.
    ///
    /// # Safety
    /// `t` is one of `tokens`.
    pub(crate) unsafe fn low_of(&self, t: usize) -> *const f32 {
        // SAFETY: `low_rank` reserved a row for each token.
        unsafe { self.low.at((t - self.tokens.start) * self.update.rank()) }
    }
}

/// The terms of some products of one input.
pub(crate) struct Terms<'a> {
    terms: Vec<Term<'a>>,
    /// By product: its terms.
    jobs: Vec<Range<usize>>,
}

impl<'a> Terms<'a> {
    /// The terms of product `job`.
    pub(crate) fn of(&self, job: usize) -> &[Term<'a>] {
        self.jobs.get(job).map_or(&[], |range| &self.terms[range.clone()])
    }
}

impl<'a> Pass<'a> {
    /// Computes `factor * A x` of every update that a sequence has for one of these products.
    pub(crate) fn low_rank(&mut self, jobs: &[Job<'_>], x: Rows) -> Result<Terms<'a>> {
        let mut all = Terms { terms: Vec::new(), jobs: Vec::new() };
        if self.sequences.iter().all(|s| s.open.updates.is_empty()) {
            return Ok(all);
        }
        let mut elems = 0;
        for job in jobs {
            let from = all.terms.len();
            for s in &self.sequences {
                let open = s.open;
                for (set, scale) in open.updates.0.iter() {
                    let Some(update) = job.linear.id.and_then(|id| set.get(&id)) else { continue };
                    if update.cols() != x.cols {
                        return Err(Error::Internal("a low-rank update of another width".into()));
                    }
                    let tokens = s.first..s.first + s.tokens.len();
                    // The place is filled in once the buffer is there.
                    let low = Shared::new(std::ptr::null_mut());
                    elems += tokens.len() * update.rank();
                    all.terms.push(Term { update, factor: update.factor() * scale, tokens, low });
                }
            }
            all.jobs.push(from..all.terms.len());
        }
        let buffer = self.scratch.low.reserve(elems)?;
        let (mut at, mut items) = (0, Vec::new());
        for (i, term) in all.terms.iter_mut().enumerate() {
            // SAFETY: within the buffer, whose size is the sum of these.
            term.low = Shared::new(unsafe { buffer.at(at) });
            at += term.tokens.len() * term.update.rank();
            items.extend(term.tokens.clone().map(|t| (i, t)));
        }
        let (isa, terms) = (self.isa, &all.terms);
        self.step_tokens(items.len(), &|item| {
            let (i, t) = items[item];
            let term = &terms[i];
            // SAFETY: row `t` of the input is readable and nobody writes it; this token's part of `low` is this
            // item's own.
            unsafe {
                let out = term.low_of(t).cast_mut();
                let (a, rank) = (term.update.a(), term.update.rank());
                Shrink { a, rank, factor: term.factor, x: x.at.at(t * x.cols), out }.run_on(isa);
            }
        })?;
        Ok(all)
    }
}
