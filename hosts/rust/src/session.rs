//! One sequence.

use crate::connection::{Connection, LONG, SHORT};
use crate::generation::Target;
use crate::handle::{Handle, Kind};
use crate::pending::Pending;
use crate::request::{to_json, Limits};
use crate::{Adapter, Blocks, CancelToken, Checkpoint, Error, Generate, Result};
use lean_protocol::{messages as m, Message};
use serde_json::Map;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// How a session begins.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Where it goes on.
    pub checkpoint: Option<Checkpoint>,
    /// Tokens that it can hold, if not the model's default.
    pub context: Option<u32>,
}

/// One sequence. A call that fails or is cancelled leaves it as it was. It takes one call at a time; another is
/// [`Error::BUSY`]. It is freed in the bridge when it is dropped.
#[derive(Debug)]
pub struct Session {
    handle: Arc<Handle>,
    tokens: AtomicUsize,
}

impl Session {
    /// From the answer to a request that opens one.
    pub(crate) fn of(connection: &Arc<Connection>, pending: Pending) -> Result<Self> {
        let (opened, _) = pending.answer::<m::Session>(|_| {})?;
        let handle = Handle::new(connection, Kind::Session, opened.session);
        Ok(Self { handle, tokens: AtomicUsize::new(opened.tokens as usize) })
    }

    /// How many tokens it held after the last change by a method of this type; what it generated since is not counted.
    pub fn tokens(&self) -> usize {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Appends blocks.
    pub fn append(&self, blocks: Blocks) -> Result<()> {
        self.append_with(blocks, None)
    }

    /// [`Session::append`], which the token can cancel.
    pub fn append_with(&self, blocks: Blocks, cancel: Option<&CancelToken>) -> Result<()> {
        self.add(blocks, false, cancel)
    }

    /// Makes the blocks the whole context; what is equal so far is kept.
    pub fn set_context(&self, blocks: Blocks) -> Result<()> {
        self.add(blocks, true, None)
    }

    fn add(&self, blocks: Blocks, replace: bool, cancel: Option<&CancelToken>) -> Result<()> {
        let mut document = Map::new();
        document.insert("blocks".into(), blocks.into_list()?.into());
        let message = m::SessionAppend { session: self.handle.id, replace };
        let limits = Limits { cancel: cancel.cloned(), timeout: None };
        self.change(&message, &to_json(&document), LONG, &limits, Vec::new())
    }

    /// Keeps so many tokens.
    pub fn truncate(&self, tokens: u32) -> Result<()> {
        self.cut(tokens, None)
    }

    /// Removes these tokens; what follows them is computed again.
    pub fn drop_range(&self, range: Range<u32>) -> Result<()> {
        self.cut(range.start, Some(range.end))
    }

    fn cut(&self, begin: u32, end: Option<u32>) -> Result<()> {
        let message = m::SessionCut { session: self.handle.id, begin, end };
        self.change(&message, b"", LONG, &Limits::default(), Vec::new())
    }

    /// Makes it run with these adapters, each times its scale, and no others from now on; its tokens are run again.
    pub fn set_adapters(&self, adapters: &[(&Adapter, f32)]) -> Result<()> {
        let mut message = m::SessionAdapt { session: self.handle.id, ..Default::default() };
        for (adapter, scale) in adapters {
            if !scale.is_finite() {
                return Err(Error::invalid(format!("an adapter's scale: {scale} is no number")));
            }
            message.adapters.push(adapter.handle.on(self.connection())?);
            message.scales.push(*scale);
        }
        let owners = adapters.iter().map(|(adapter, _)| adapter.handle.clone()).collect();
        self.change(&message, b"", LONG, &Limits::default(), owners)
    }

    /// Sends what is answered with the session as it is then.
    fn change<M: Message>(
        &self,
        message: &M,
        tail: &[u8],
        places: usize,
        limits: &Limits,
        mut owners: Vec<Arc<Handle>>,
    ) -> Result<()> {
        owners.push(self.handle.clone());
        let pending = self.connection().call(message, tail, places, limits)?.owned_by(owners);
        let (now, _) = pending.answer::<m::Session>(|_| {})?;
        self.tokens.store(now.tokens as usize, Ordering::Relaxed);
        Ok(())
    }

    /// A second session with the same content.
    pub fn fork(&self) -> Result<Session> {
        let message = m::SessionFork { session: self.handle.id };
        let pending = self.connection().call(&message, b"", SHORT, &Limits::default())?;
        Session::of(self.connection(), pending.owned_by([self.handle.clone()]))
    }

    /// The state now.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let message = m::CheckpointTake { session: Some(self.handle.id), generation: None };
        Checkpoint::take(&message, &self.handle)
    }
}

impl Target for Session {
    fn connection(&self) -> &Arc<Connection> {
        &self.handle.connection
    }
    fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
    fn ids(&self) -> (Option<u32>, Option<u32>) {
        (None, Some(self.handle.id))
    }
}

impl Generate for Session {}
