//! LoRA adapters: read from PEFT's or llama.cpp's files, identified by their content, applied by the backend.
//!
//! Every byte of an adapter is untrusted: what does not fit the model is an error that names tensor and shape.

mod gguf_file;
mod parts;
mod peft;
mod weights;

use crate::backend::{LowRankSet, Updates};
use crate::error::{Error, Result};
use crate::gguf::shown;
use crate::gguf::Gguf;
use crate::model::{Target, Targets};
use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use twox_hash::XxHash3_64;

/// Changes whenever what is hashed changes.
const SEED: u64 = 1;

/// A loaded adapter: immutable, for the model that loaded it. Cloning shares it.
#[derive(Clone)]
pub struct Adapter(Arc<Inner>);

struct Inner {
    info: AdapterInfo,
    fingerprint: u64,
    set: Arc<LowRankSet>,
}

/// What an adapter says about itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdapterInfo {
    /// The file's or folder's name.
    pub name: String,
    /// `peft` or `gguf`.
    pub format: &'static str,
    /// Matrices it updates.
    pub matrices: usize,
    /// The smallest and the largest rank.
    pub ranks: (usize, usize),
    /// Bytes of its numbers in memory.
    pub bytes: u64,
    /// Content-derived identity; checkpoints and caches name it.
    pub fingerprint: String,
}

/// An adapter in use, as a checkpoint names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterUse {
    /// For people.
    pub name: String,
    /// Of its content.
    pub fingerprint: u64,
    /// What its updates are multiplied with.
    pub scale: f32,
}

impl std::fmt::Display for AdapterUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:016x}) x {}", shown(&self.name), self.fingerprint, self.scale)
    }
}

impl Adapter {
    /// From the bytes of PEFT's `adapter_config.json` and `adapter_model.safetensors`.
    pub(crate) fn from_peft(name: &str, config: &[u8], weights: &[u8], targets: &Targets) -> Result<Self> {
        Self::new(name, "peft", peft::read(config, weights, targets)?)
    }

    /// From the bytes of a GGUF adapter for a model of this architecture.
    pub(crate) fn from_gguf(name: &str, gguf: &Gguf, architecture: &str, targets: &Targets) -> Result<Self> {
        Self::new(name, "gguf", gguf_file::read(gguf, architecture, targets)?)
    }

    fn new(name: &str, format: &'static str, parts: parts::Parts) -> Result<Self> {
        let (set, names) = parts.finish()?;
        let ranks = || set.values().map(crate::backend::LowRank::rank);
        let fingerprint = fingerprint(&set, &names);
        let info = AdapterInfo {
            name: name.to_string(),
            format,
            matrices: set.len(),
            ranks: (ranks().min().unwrap_or(0), ranks().max().unwrap_or(0)),
            bytes: set.values().map(|u| (u.a().len() + u.b().len()) as u64 * 4).sum(),
            fingerprint: format!("{fingerprint:016x}"),
        };
        Ok(Adapter(Arc::new(Inner { info, fingerprint, set: Arc::new(set) })))
    }

    /// What it is.
    pub fn info(&self) -> &AdapterInfo {
        &self.0.info
    }

    /// Content-derived identity: equal for equal updates, whichever format they came in.
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Adapter").field(&self.0.info).finish()
    }
}

/// XXH3-64 over names, factors and numbers, in the order of the names.
fn fingerprint(set: &LowRankSet, names: &[(String, Target)]) -> u64 {
    let mut hash = XxHash3_64::with_seed(SEED);
    for (name, target) in names {
        let Some(update) = set.get(&target.tensor) else { continue };
        hash.write(name.as_bytes());
        hash.write(&[0]);
        hash.write(&(update.rank() as u64).to_le_bytes());
        hash.write(&update.factor().to_le_bytes());
        for x in update.a().iter().chain(update.b()) {
            hash.write(&x.to_le_bytes());
        }
    }
    hash.finish()
}

/// The adapters of a sequence with their scales, in the order in which they are added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Adapters {
    list: Arc<Vec<(Adapter, f32)>>,
    updates: Updates,
}

impl Adapters {
    pub(crate) fn new(list: &[(Adapter, f32)]) -> Result<Self> {
        for (adapter, scale) in list {
            if !scale.is_finite() {
                let reason = format!("{scale} for {} is no finite number", adapter.info().name);
                return Err(Error::invalid("scale", reason));
            }
        }
        let updates = list.iter().map(|(a, scale)| (a.0.set.clone(), *scale)).collect();
        Ok(Adapters { list: Arc::new(list.to_vec()), updates: Updates(Arc::new(updates)) })
    }

    pub(crate) fn list(&self) -> &[(Adapter, f32)] {
        &self.list
    }

    pub(crate) fn updates(&self) -> &Updates {
        &self.updates
    }

    /// What a checkpoint keeps of them.
    pub(crate) fn uses(&self) -> Vec<AdapterUse> {
        let one = |(a, scale): &(Adapter, f32)| AdapterUse {
            name: a.info().name.clone(),
            fingerprint: a.fingerprint(),
            scale: *scale,
        };
        self.list.iter().map(one).collect()
    }

    /// Key of caches: sequences with equal ones compute the same. 0 without adapters.
    pub(crate) fn fingerprint(&self) -> u64 {
        if self.list.is_empty() {
            return 0;
        }
        let mut hash = XxHash3_64::with_seed(SEED);
        for (adapter, scale) in self.list.iter() {
            hash.write(&adapter.fingerprint().to_le_bytes());
            hash.write(&scale.to_bits().to_le_bytes());
        }
        hash.finish().max(1)
    }
}

/// The adapters that a model has loaded and that somebody still holds: what a checkpoint finds its own among.
#[derive(Default)]
pub(crate) struct Loaded(Mutex<Vec<Weak<Inner>>>);

impl Loaded {
    pub(crate) fn add(&self, adapter: &Adapter) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|a| a.strong_count() > 0);
        all.push(Arc::downgrade(&adapter.0));
    }

    /// Whether an adapter was loaded by this model.
    pub(crate) fn has(&self, adapter: &Adapter) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|a| a.as_ptr() == Arc::as_ptr(&adapter.0))
    }

    /// The adapters that a checkpoint was made with.
    ///
    /// # Errors
    /// [`Error::Incompatible`] names the first that is not loaded.
    pub(crate) fn find(&self, uses: &[AdapterUse]) -> Result<Adapters> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = Vec::new();
        for wanted in uses {
            let found = all.iter().filter_map(Weak::upgrade).find(|a| a.fingerprint == wanted.fingerprint);
            let Some(found) = found else {
                return Err(Error::Incompatible {
                    what: "adapter".into(),
                    expected: "adapters that are loaded".into(),
                    found: format!("{wanted}, which is not; load it first"),
                });
            };
            list.push((Adapter(found), wanted.scale));
        }
        drop(all);
        Adapters::new(&list)
    }
}
