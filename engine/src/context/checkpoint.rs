//! Physical exact continuations: the tokens, the state they filled, and a value in progress.

use super::file::{self, CheckpointFile, Encoded, Input};
use super::sequence::Sequence;
use crate::adapter::{AdapterUse, Loaded};
use crate::backend::{Backend, StateImage, StateShape};
use crate::error::{Error, Result};
use crate::files;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// What has to be equal for a state to continue bit for bit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    /// Of the model file.
    pub fingerprint: u64,
    /// Of the backend.
    pub exactness_class: String,
    /// Of the state.
    pub shape: StateShape,
    /// That the state was computed with; none of a model itself.
    pub adapters: Vec<AdapterUse>,
}

/// How a checkpoint may be restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Restore {
    /// Bit for bit, or [`Error::Incompatible`].
    #[default]
    Exact,
    /// A state of another exactness class (another backend, kernel revision or type of keys and values) is taken
    /// over; what follows is as exact as the looser of the two, not bit-identical.
    Convert,
    /// Only the tokens are taken; the state is computed again.
    Reprefill,
}

/// How a checkpoint becomes bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SaveOptions<'a> {
    /// Compress the state (zstd) where that makes it smaller: about a tenth for float32, at a tenth of the speed.
    pub compress: bool,
    /// Leave out the pages that this checkpoint has, too; it is needed again to read the bytes.
    pub parent: Option<&'a Checkpoint>,
}

/// What a restore did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The state is shared with the checkpoint; nothing was copied.
    Shared,
    /// The state was copied in.
    Imported,
    /// The state of another exactness class was copied in.
    Converted,
    /// The tokens are pending and will be run again.
    Reprefilled,
}

/// A point to continue from. Cheap to clone; outlives the session it came from; branches and chains.
#[derive(Clone)]
pub struct Checkpoint(Arc<Inner>);

struct Inner {
    identity: Identity,
    tokens: Vec<u32>,
    capacity: usize,
    /// A value in progress, in the generation's own encoding.
    resume: Option<Vec<u8>>,
    state: State,
}

impl Inner {
    /// A sequence from a host copy of the state, converted to how the backend stores keys and values.
    fn import(
        &self,
        image: &StateImage,
        backend: &Arc<dyn Backend>,
        own: &Identity,
        capacity: usize,
    ) -> Result<Sequence> {
        let shape = &self.identity.shape;
        if *shape == own.shape {
            return Sequence::import(backend, image, self.tokens.clone(), capacity);
        }
        Sequence::import(backend, &image.converted(shape, &own.shape)?, self.tokens.clone(), capacity)
    }
}

enum State {
    /// In a backend, sharing pages with whatever it was taken from.
    Live(Sequence),
    /// On the host.
    Host(StateImage),
}

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CheckpointInfo {
    /// Of the model file it belongs to.
    pub fingerprint: u64,
    /// Of the backend that made the state.
    pub exactness_class: String,
    /// Tokens in the sequence.
    pub tokens: usize,
    /// Tokens whose state is there; the rest run with the next step.
    pub filled: usize,
    /// Whether it was taken inside a value.
    pub in_value: bool,
    /// Bytes of raw state.
    pub state_bytes: u64,
    /// Adapters that it was made with: a model restores it only while it has loaded them.
    pub adapters: Vec<AdapterUse>,
}

impl Checkpoint {
    pub(crate) fn live(seq: Sequence, identity: Identity, resume: Option<Vec<u8>>) -> Self {
        let identity = Identity { adapters: seq.adapters().uses(), ..identity };
        Checkpoint(Arc::new(Inner {
            tokens: seq.tokens.clone(),
            capacity: seq.capacity,
            identity,
            resume,
            state: State::Live(seq),
        }))
    }

    pub(crate) fn host(
        identity: Identity,
        tokens: Vec<u32>,
        capacity: usize,
        resume: Option<Vec<u8>>,
        image: StateImage,
    ) -> Self {
        Checkpoint(Arc::new(Inner { identity, tokens, capacity, resume, state: State::Host(image) }))
    }

    /// Token ids of the sequence; enough to prefill again anywhere.
    pub fn tokens(&self) -> &[u32] {
        &self.0.tokens
    }

    /// Context of the session it came from, as its bytes say: not yet checked against any model.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// What it is, without restoring it.
    pub fn info(&self) -> Result<CheckpointInfo> {
        let filled = match &self.0.state {
            State::Live(seq) => seq.filled()?,
            State::Host(image) => image.len,
        };
        let shape = &self.0.identity.shape;
        Ok(CheckpointInfo {
            fingerprint: self.0.identity.fingerprint,
            exactness_class: self.0.identity.exactness_class.clone(),
            tokens: self.0.tokens.len(),
            filled,
            in_value: self.0.resume.is_some(),
            state_bytes: file::state_bytes(shape, filled),
            adapters: self.0.identity.adapters.clone(),
        })
    }

    /// A self-contained copy: format in `docs/checkpoint.md`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.to_bytes_with(&SaveOptions::default())
    }

    /// A copy that is compressed, or holds only what differs from a parent. [`Error::Incompatible`] where the parent
    /// is of another model or exactness class.
    pub fn to_bytes_with(&self, options: &SaveOptions<'_>) -> Result<Vec<u8>> {
        self.encoded(options, &mut |file| file.to_vec())
    }

    /// What `use_it` makes of the bytes in pieces.
    fn encoded<T>(
        &self,
        options: &SaveOptions<'_>,
        use_it: &mut dyn FnMut(&Encoded<'_>) -> Result<T>,
    ) -> Result<T> {
        let parent = match options.parent {
            Some(parent) => {
                self.same_kind(parent)?;
                Some(parent.image()?)
            }
            None => None,
        };
        use_it(&Encoded::new(&file::Parts {
            identity: &self.0.identity,
            tokens: &self.0.tokens,
            capacity: self.0.capacity,
            resume: self.0.resume.as_deref(),
            image: &*self.image()?,
            compress: options.compress,
            parent: parent.as_deref(),
        })?)
    }

    fn same_kind(&self, parent: &Checkpoint) -> Result<()> {
        let (own, theirs) = (&self.0.identity, &parent.0.identity);
        if own == theirs {
            return Ok(());
        }
        let named = |i: &Identity| format!("model {:016x} in class {}", i.fingerprint, i.exactness_class);
        Err(Error::Incompatible {
            what: "parent of the delta".into(),
            expected: named(own),
            found: named(theirs),
        })
    }

    fn image(&self) -> Result<Cow<'_, StateImage>> {
        Ok(match &self.0.state {
            State::Live(seq) => Cow::Owned(seq.export()?),
            State::Host(image) => Cow::Borrowed(image),
        })
    }

    /// From [`Checkpoint::to_bytes`]. Every byte is covered by a checksum; whether it belongs to a model is
    /// checked when it is restored. A delta is [`Error::Incompatible`] here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes, None)
    }

    fn read(mut bytes: &[u8], parent: Option<&StateImage>) -> Result<Self> {
        file::decode(bytes_as_input(&mut bytes), parent)
    }

    fn read_file(path: &Path, parent: Option<&StateImage>) -> Result<Self> {
        let (mut from, total) = files::open(path, u64::MAX)?;
        file::decode(Input { from: &mut from, total, failed: &|e| Error::io(path, e) }, parent)
    }

    /// From [`Checkpoint::to_bytes_with`] and the parent that was given there. A parent that does not have the pages
    /// that the delta left out is [`Error::Incompatible`]. Bytes of a whole checkpoint need no parent and ignore it.
    pub fn from_delta(bytes: &[u8], parent: &Checkpoint) -> Result<Self> {
        Self::read(bytes, Some(&*parent.image()?))
    }

    /// Checks every byte of a checkpoint, of a delta too, and says what is in it.
    pub fn inspect(mut bytes: &[u8]) -> Result<CheckpointFile> {
        file::inspect(bytes_as_input(&mut bytes))
    }

    /// Writes the bytes to a temporary file beside `path` and renames it, so that `path` is always either the old
    /// file or the whole new one; an old file is replaced only after the new one is on the disk. Returns the bytes
    /// written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.save_with(path, &SaveOptions::default(), &mut |_, _| {})
    }

    /// As [`Checkpoint::save`]; `progress` hears the bytes done and their total.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        options: &SaveOptions<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64> {
        self.encoded(options, &mut |file| {
            let total = file.len() as u64;
            files::write_with_progress(path.as_ref(), file.pieces(), total, progress)?;
            Ok(total)
        })
    }

    /// Reads a file written by [`Checkpoint::save`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_file(path.as_ref(), None)
    }

    /// Reads a file that was saved as a delta of `parent`.
    pub fn load_delta(path: impl AsRef<Path>, parent: &Checkpoint) -> Result<Self> {
        Self::read_file(path.as_ref(), Some(&*parent.image()?))
    }

    /// A sequence in `backend` that continues here with the adapters it was made with, and how it came about.
    pub(crate) fn restore(
        &self,
        backend: &Arc<dyn Backend>,
        own: &Identity,
        loaded: &Loaded,
        policy: Restore,
        capacity: usize,
        vocab: usize,
    ) -> Result<(Sequence, Option<Vec<u8>>, Restored)> {
        let inner = &*self.0;
        self.check(own, policy, capacity, vocab)?;
        let tokens = inner.tokens.clone();
        let same_class = own.exactness_class == inner.identity.exactness_class;
        let imported = if same_class { Restored::Imported } else { Restored::Converted };
        let adapters = match &inner.state {
            State::Live(seq) if seq.lives_in(backend) => seq.adapters().clone(),
            _ => loaded.find(&inner.identity.adapters)?,
        };
        let (mut seq, how) = match (&inner.state, policy) {
            (_, Restore::Reprefill) => {
                let mut seq = Sequence::new(backend, capacity)?;
                seq.tokens = tokens;
                (seq, Restored::Reprefilled)
            }
            (State::Live(seq), _) if seq.lives_in(backend) => {
                let mut seq = seq.fork()?;
                seq.capacity = capacity;
                (seq, Restored::Shared)
            }
            (State::Live(seq), _) => (inner.import(&seq.export()?, backend, own, capacity)?, imported),
            (State::Host(image), _) => (inner.import(image, backend, own, capacity)?, imported),
        };
        if how != Restored::Shared {
            seq.adapt(adapters)?;
        }
        Ok((seq, inner.resume.clone(), how))
    }

    fn check(&self, own: &Identity, policy: Restore, capacity: usize, vocab: usize) -> Result<()> {
        let identity = &self.0.identity;
        let incompatible = |what: &str, expected: String, found: String| {
            Err(Error::Incompatible { what: what.into(), expected, found })
        };
        if identity.fingerprint != own.fingerprint {
            let [expected, found] = [own, identity].map(|i| format!("{:016x}", i.fingerprint));
            return incompatible("model fingerprint", expected, found);
        }
        if policy == Restore::Exact && identity.exactness_class != own.exactness_class {
            return incompatible(
                "exactness class",
                own.exactness_class.clone(),
                identity.exactness_class.clone(),
            );
        }
        let fits = match policy {
            Restore::Exact => identity.shape == own.shape,
            Restore::Convert => identity.shape.same_layers(&own.shape),
            Restore::Reprefill => true,
        };
        if !fits {
            return incompatible("state layout", format!("{:?}", own.shape), format!("{:?}", identity.shape));
        }
        if self.0.tokens.len() > capacity {
            return Err(Error::ContextOverflow { needed: self.0.tokens.len(), available: capacity });
        }
        if let Some(id) = self.0.tokens.iter().find(|id| **id as usize >= vocab) {
            return Err(Error::bad_checkpoint(
                "tokens",
                format!("id {id} is not in the vocabulary of {vocab} ids"),
            ));
        }
        Ok(())
    }
}

fn bytes_as_input<'a>(bytes: &'a mut &[u8]) -> Input<'a> {
    let total = bytes.len() as u64;
    Input { from: bytes, total, failed: &|e| Error::bad_checkpoint("end", e) }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("tokens", &self.0.tokens.len()).finish_non_exhaustive()
    }
}
