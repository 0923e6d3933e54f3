//! Cancelling from anywhere.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A flag shared between the caller and the work. Clones are the same flag; once cancelled it stays so.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Node>);

#[derive(Debug, Default)]
struct Node {
    set: AtomicBool,
    parent: Option<CancelToken>,
    ask: Option<fn() -> bool>,
}

impl CancelToken {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag of its own that is also set when this one is: for one call among those that share a flag.
    pub fn child(&self) -> Self {
        CancelToken(Arc::new(Node { parent: Some(self.clone()), ..Node::default() }))
    }

    /// A flag that asks `ask` too, whenever it is looked at: between the layers of a pass, so it must be quick. For
    /// where nobody else runs who could set the flag, as in a worker of a page. What `ask` cancels meanwhile is noticed
    /// at once.
    pub fn asking(ask: fn() -> bool) -> Self {
        CancelToken(Arc::new(Node { ask: Some(ask), ..Node::default() }))
    }

    /// Sets the flag; idempotent, callable from any thread or a signal handler.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        // The flag itself last: asking may set it.
        self.0.parent.as_ref().is_some_and(Self::is_cancelled)
            || self.0.ask.is_some_and(|ask| ask())
            || self.0.set.load(Ordering::Relaxed)
    }

    /// `Err(Error::Cancelled)` once the flag is set.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_hears_its_parent_and_not_the_reverse() {
        let parent = CancelToken::new();
        let (one, other) = (parent.child(), parent.child());
        one.cancel();
        assert!(one.is_cancelled() && !other.is_cancelled() && !parent.is_cancelled());
        parent.cancel();
        assert_eq!(other.check(), Err(Error::Cancelled));
    }

    #[test]
    fn who_is_asked_answers_for_all_children() {
        static SAID: AtomicBool = AtomicBool::new(false);
        let parent = CancelToken::asking(|| SAID.load(Ordering::Relaxed));
        let child = parent.child();
        assert!(!parent.is_cancelled() && !child.is_cancelled());
        SAID.store(true, Ordering::Relaxed);
        assert!(parent.is_cancelled() && child.is_cancelled());
    }
}
