//! A token history and the state that belongs to it.

use super::prefix::PrefixKey;
use crate::adapter::Adapters;
use crate::backend::{Backend, StateId, StateImage};
use crate::error::Result;
use std::sync::Arc;

/// A backend's state, freed when dropped.
struct StateHandle {
    backend: Arc<dyn Backend>,
    id: StateId,
}

impl Drop for StateHandle {
    fn drop(&mut self) {
        self.backend.free_state(self.id);
    }
}

/// Tokens, and a state that holds a prefix of them.
///
/// The state is filled for `tokens[..filled]`; the rest is pending and runs with the next step. Whoever
/// changes a sequence works on a fork and swaps it in on success, so a failed call leaves nothing behind.
pub(crate) struct Sequence {
    state: StateHandle,
    pub tokens: Vec<u32>,
    /// Most tokens the sequence may hold.
    pub capacity: usize,
    computed_here: bool,
    adapters: Adapters,
}

impl Sequence {
    pub fn new(backend: &Arc<dyn Backend>, capacity: usize) -> Result<Self> {
        let id = backend.new_state()?;
        Ok(Self::with(backend, id, Vec::new(), capacity, true))
    }

    fn with(
        backend: &Arc<dyn Backend>,
        id: StateId,
        tokens: Vec<u32>,
        capacity: usize,
        computed_here: bool,
    ) -> Self {
        let state = StateHandle { backend: backend.clone(), id };
        Sequence { state, tokens, capacity, computed_here, adapters: Adapters::default() }
    }

    /// Makes everything that runs from now on run with these adapters. What the state already holds must have
    /// been computed with them.
    pub fn adapt(&mut self, adapters: Adapters) -> Result<()> {
        self.state.backend.adapt(self.state.id, adapters.updates())?;
        self.adapters = adapters;
        Ok(())
    }

    /// The adapters that its state was computed with; [`Adapters::fingerprint`] is what caches are keyed by.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Whose states it may share: those that were computed with the same adapters.
    pub fn prefix_key(&self) -> PrefixKey {
        PrefixKey { adapter: Some(self.adapters.fingerprint()).filter(|f| *f != 0) }
    }

    /// A sequence from a host copy of its state.
    pub fn import(
        backend: &Arc<dyn Backend>,
        image: &StateImage,
        tokens: Vec<u32>,
        capacity: usize,
    ) -> Result<Self> {
        let id = backend.import(image)?;
        Ok(Self::with(backend, id, tokens, capacity, false))
    }

    pub fn state(&self) -> StateId {
        self.state.id
    }

    /// Whether the state is known to be what this model makes of these tokens. What was imported is what its
    /// bytes say.
    pub fn computed_here(&self) -> bool {
        self.computed_here
    }

    /// Whether the state lives in this backend.
    pub fn lives_in(&self, backend: &Arc<dyn Backend>) -> bool {
        Arc::ptr_eq(&self.state.backend, backend)
    }

    /// Tokens whose state is there.
    pub fn filled(&self) -> Result<usize> {
        self.state.backend.len(self.state.id)
    }

    /// A second sequence with the same content; shares all pages.
    pub fn fork(&self) -> Result<Self> {
        let id = self.state.backend.fork(self.state.id)?;
        let state = StateHandle { backend: self.state.backend.clone(), id };
        let Sequence { capacity, computed_here, .. } = *self;
        let (tokens, adapters) = (self.tokens.clone(), self.adapters.clone());
        Ok(Sequence { state, tokens, capacity, computed_here, adapters })
    }

    /// Shortens the sequence to `len` tokens. Where the state cannot be cut there, the tokens that it lost
    /// become pending.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        if len < self.filled()? {
            self.state.backend.truncate(self.state.id, len)?;
        }
        self.tokens.truncate(len);
        Ok(())
    }

    /// A host copy of the state.
    pub fn export(&self) -> Result<StateImage> {
        self.state.backend.export(self.state.id)
    }
}
