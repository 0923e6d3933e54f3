//! Numbers that hosts hold instead of objects.

use crate::groups::Groups;
use crate::port::{Adapter, Checkpoint, Model, Session};
use lean_engine::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Handles of one kind that a connection may hold: a host that forgets to drop them is told so.
const LIMIT: usize = 16384;

/// One kind of handles. Numbers begin with 1 and are never used again.
pub(crate) struct Handles<T> {
    what: &'static str,
    state: Mutex<(u32, HashMap<u32, T>)>,
}

impl<T: Clone> Handles<T> {
    pub fn new(what: &'static str) -> Self {
        Self { what, state: Mutex::new((0, HashMap::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, (u32, HashMap<u32, T>)> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn insert(&self, value: T) -> Result<u32> {
        let mut s = self.lock();
        let next = s.0.checked_add(1).filter(|_| s.1.len() < LIMIT);
        let handle =
            next.ok_or_else(|| Error::Busy { what: format!("all {} handles ({LIMIT})", self.what) })?;
        s.0 = handle;
        s.1.insert(handle, value);
        Ok(handle)
    }

    pub fn get(&self, handle: u32) -> Result<T> {
        self.lock().1.get(&handle).cloned().ok_or_else(|| self.unknown(handle))
    }

    pub fn remove(&self, handle: u32) -> Result<T> {
        self.lock().1.remove(&handle).ok_or_else(|| self.unknown(handle))
    }

    pub fn clear(&self) {
        self.lock().1.clear();
    }

    fn unknown(&self, handle: u32) -> Error {
        Error::invalid(self.what, format!("there is no {} {handle} (any more)", self.what))
    }
}

/// A session and the lock that makes its calls exclusive.
pub(crate) type SessionSlot = Arc<Mutex<Box<dyn Session>>>;

/// All that a connection holds.
pub(crate) struct Tables {
    pub models: Handles<Arc<dyn Model>>,
    pub sessions: Handles<SessionSlot>,
    pub checkpoints: Handles<Arc<dyn Checkpoint>>,
    pub groups: Groups,
    pub adapters: Handles<Arc<dyn Adapter>>,
}

impl Tables {
    pub fn new() -> Self {
        Self {
            models: Handles::new("model"),
            sessions: Handles::new("session"),
            checkpoints: Handles::new("checkpoint"),
            groups: Groups::default(),
            adapters: Handles::new("adapter"),
        }
    }

    pub fn clear(&self) {
        self.groups.clear();
        self.sessions.clear();
        self.checkpoints.clear();
        self.adapters.clear();
        self.models.clear();
    }
}
