//! States to continue from.

use crate::connection::SHORT;
use crate::engine::seen_from_there;
use crate::generation::Target;
use crate::handle::{Handle, Kind};
use crate::pending::Pending;
use crate::request::{to_json, Limits};
use crate::{Error, Model, Result};
use lean_protocol::{crc32, decode_head, messages as m, Message};
use serde_json::Map;
use std::path::Path;
use std::sync::Arc;

/// A state to continue from, bit for bit, here or in another process with the same model. It outlives the session it came
/// from, and is freed in the bridge when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub(crate) handle: Arc<Handle>,
    tokens: Option<usize>,
    restored: Option<String>,
}

/// How a checkpoint is read.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// The one that it was written with as [`SaveOptions::parent`].
    pub parent: Option<Checkpoint>,
    /// What may be done to one of another exactness class (another backend, another type of keys and values); without it such a
    /// one is [`Error::INCOMPATIBLE`].
    pub policy: Option<RestorePolicy>,
}

/// What may be done to a checkpoint of another exactness class. [`Checkpoint::restored`] then says what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestorePolicy {
    /// Nothing.
    Exact,
    /// Its state is taken over as it is.
    Convert,
    /// Its tokens are taken, and run again by whoever uses it first.
    Reprefill,
}

/// How a checkpoint is written.
#[derive(Debug, Clone, Default)]
pub struct SaveOptions {
    /// Makes it smaller (zstd).
    pub compress: bool,
    /// Leaves out what this one has too; it is needed again to restore it.
    pub parent: Option<Checkpoint>,
}

impl Checkpoint {
    pub(crate) fn kept(handle: Arc<Handle>) -> Self {
        Self { handle, tokens: None, restored: None }
    }

    pub(crate) fn take(message: &m::CheckpointTake, owner: &Arc<Handle>) -> Result<Self> {
        let pending = owner.connection.call(message, b"", SHORT, &Limits::default())?;
        Self::of(owner, pending.owned_by([owner.clone()]))
    }

    fn of(beside: &Arc<Handle>, pending: Pending) -> Result<Self> {
        let (taken, tail) = pending.answer::<m::Checkpoint>(|_| {})?;
        let handle = Handle::new(&beside.connection, Kind::Checkpoint, taken.checkpoint);
        let said = lean_protocol::json::parse(&tail).unwrap_or_default();
        let restored = said["restored"].as_str().map(str::to_owned);
        Ok(Self { handle, tokens: Some(taken.tokens as usize), restored })
    }

    /// Tokens it holds, where that is known.
    pub fn tokens(&self) -> Option<usize> {
        self.tokens
    }

    /// What was done to restore it, where [`RestoreOptions::policy`] was given: `imported`, `converted` or `reprefilled`.
    pub fn restored(&self) -> Option<&str> {
        self.restored.as_deref()
    }

    /// Writes it to a file, which is always either the old one or the whole new one; answers its bytes.
    pub fn save(&self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<u64> {
        let pending = self.saving(Some(seen_from_there(path.as_ref())?), options)?;
        Ok(pending.answer::<m::Saved>(|_| {})?.0.size)
    }

    /// Its self-describing bytes, for [`Model::restore`].
    pub fn to_bytes(&self, options: &SaveOptions) -> Result<Vec<u8>> {
        let mut pending = self.saving(None, options)?;
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(frame) = pending.next() {
            if frame.kind != m::Chunk::KIND {
                continue;
            }
            let chunk: m::Chunk = decode_head(frame.head(), 0).map_err(|e| Error::protocol(e.to_string()))?;
            if chunk.offset != bytes.len() as u64 {
                return Err(Error::damaged(format!(
                    "a chunk at {} where {} was due",
                    chunk.offset,
                    bytes.len()
                )));
            }
            bytes.extend_from_slice(frame.tail());
        }
        let (saved, _) = pending.take_answer::<m::Saved>()?;
        if saved.size != bytes.len() as u64 || saved.digest != crc32::crc32(&bytes) {
            return Err(Error::damaged("size or digest do not match"));
        }
        Ok(bytes)
    }

    fn saving(&self, path: Option<String>, options: &SaveOptions) -> Result<Pending> {
        let connection = &self.handle.connection;
        let mut document = Map::new();
        document.insert("compress".into(), options.compress.into());
        if let Some(parent) = &options.parent {
            document.insert("parent".into(), parent.handle.on(connection)?.into());
        }
        let message = m::CheckpointSave { checkpoint: self.handle.id, path };
        let pending = connection.call(&message, &to_json(&document), SHORT, &Limits::default())?;
        let parent = options.parent.as_ref().map(|p| p.handle.clone());
        Ok(pending.owned_by([self.handle.clone()]).owned_by(parent))
    }

    /// Reads one from a file, or from bytes.
    pub(crate) fn load(
        model: &Model,
        path: Option<String>,
        bytes: &[u8],
        options: &RestoreOptions,
    ) -> Result<Self> {
        let connection = model.connection();
        let mut document = Map::new();
        if let Some(parent) = &options.parent {
            document.insert("parent".into(), parent.handle.on(connection)?.into());
        }
        if let Some(policy) = options.policy {
            let name = match policy {
                RestorePolicy::Exact => "exact",
                RestorePolicy::Convert => "convert",
                RestorePolicy::Reprefill => "reprefill",
            };
            document.insert("restore".into(), name.into());
        }
        let tail = if document.is_empty() { Vec::new() } else { to_json(&document) };
        let upload = path.is_none();
        let message = m::CheckpointLoad { model: model.handle.id, path };
        let pending = connection.call(&message, &tail, SHORT, &Limits::default())?;
        let parent = options.parent.as_ref().map(|p| p.handle.clone());
        let owners = parent.into_iter().chain([model.handle.clone()]);
        let mut pending = pending.owned_by(owners);
        if upload {
            pending.upload(bytes);
        }
        Self::of(&model.handle, pending)
    }
}
