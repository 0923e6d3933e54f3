//! A loaded model.

use crate::connection::{Connection, SHORT};
use crate::engine::seen_from_there;
use crate::generation::Target;
use crate::handle::{Handle, Kind};
use crate::request::Limits;
use crate::{Checkpoint, Error, Generate, RestoreOptions, Result, Session, SessionOptions};
use lean_protocol::messages as m;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// What a model is and where it runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Info {
    /// `llama`, `qwen3` and so on.
    pub architecture: String,
    /// As its file says.
    pub name: String,
    /// `cpu` or `gpu`.
    pub backend: String,
    /// The processor or GPU.
    pub device: String,
    /// Results are bit-identical within a class.
    pub exactness_class: String,
    /// Identifies the weights.
    pub fingerprint: String,
    /// Tokens of context.
    pub context_length: usize,
    /// Tokens in the vocabulary.
    pub vocab_size: usize,
    /// Whether it can render conversations.
    pub has_chat_template: bool,
    /// All of it, what a newer engine adds included.
    #[serde(skip)]
    pub all: Value,
}

/// A loaded model, shared by its clones. It is freed in the bridge when the last of them, and all that runs on it, is dropped.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) handle: Arc<Handle>,
    info: Arc<Info>,
}

impl Model {
    pub(crate) fn new(handle: Arc<Handle>, all: Value) -> Result<Self> {
        let wrong = |e| Error::protocol(format!("the model's description: {e}"));
        let mut info = Info::deserialize(&all).map_err(wrong)?;
        info.all = all;
        Ok(Self { handle, info: Arc::new(info) })
    }

    /// What it is and where it runs.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What it has done since it was loaded, and the memory it takes: MODEL_STATS of `bridge/PROTOCOL.md`.
    pub fn stats(&self) -> Result<Value> {
        let message = m::ModelStats { model: self.handle.id };
        let (_, tail) = self.call(&message)?.answer::<m::Info>(|_| {})?;
        lean_protocol::json::parse(&tail).map_err(|e| Error::protocol(format!("the model's counts: {e}")))
    }

    /// How many bytes of state are kept of earlier contexts, so that one that begins alike is not computed again from its
    /// beginning; 0 is off. Values are the same either way.
    pub fn set_prefix_cache(&self, bytes: u64) -> Result<()> {
        let message = m::ModelPrefixCache { model: self.handle.id, bytes };
        self.call(&message)?.answer::<m::Ok>(|_| {}).map(drop)
    }

    /// Opens a session: a sequence that is appended to and generated from.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        let from = options.checkpoint.as_ref();
        let checkpoint = from.map(|c| c.handle.on(self.connection())).transpose()?;
        let message = m::SessionOpen { model: self.handle.id, checkpoint, context: options.context };
        let pending = self.call(&message)?.owned_by(from.map(|c| c.handle.clone()));
        Session::of(self.connection(), pending)
    }

    /// Reads a checkpoint from its bytes, checked against this model.
    pub fn restore(&self, bytes: &[u8], options: &RestoreOptions) -> Result<Checkpoint> {
        Checkpoint::load(self, None, bytes, options)
    }

    /// Reads a checkpoint from a file: see [`Model::restore`].
    pub fn restore_file(&self, path: impl AsRef<Path>, options: &RestoreOptions) -> Result<Checkpoint> {
        Checkpoint::load(self, Some(seen_from_there(path.as_ref())?), b"", options)
    }

    /// Reads a LoRA adapter: a GGUF file, or PEFT's folder.
    pub fn load_adapter(&self, path: impl AsRef<Path>) -> Result<Adapter> {
        let message = m::AdapterLoad { model: self.handle.id, path: seen_from_there(path.as_ref())? };
        let (answer, info) = self.call(&message)?.answer::<m::Adapter>(|_| {})?;
        let info = lean_protocol::json::parse(&info).unwrap_or(Value::Null);
        Ok(Adapter { handle: Handle::new(self.connection(), Kind::Adapter, answer.adapter), info })
    }

    fn call<M: lean_protocol::Message>(&self, message: &M) -> Result<crate::pending::Pending> {
        let pending = self.connection().call(message, b"", SHORT, &Limits::default())?;
        Ok(pending.owned_by([self.handle.clone()]))
    }
}

impl Target for Model {
    fn connection(&self) -> &Arc<Connection> {
        &self.handle.connection
    }
    fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
    fn ids(&self) -> (Option<u32>, Option<u32>) {
        (Some(self.handle.id), None)
    }
}

impl Generate for Model {}

/// A LoRA adapter of a model; sessions that use it keep it.
#[derive(Debug, Clone)]
pub struct Adapter {
    pub(crate) handle: Arc<Handle>,
    info: Value,
}

impl Adapter {
    /// What it says about itself.
    pub fn info(&self) -> &Value {
        &self.info
    }
}
