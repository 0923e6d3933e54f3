//! The engine: a bridge process that loads models.

use crate::connection::{Connection, LONG};
use crate::handle::{Handle, Kind};
use crate::request::{to_json, Limits};
use crate::{CancelToken, Error, Model, Result};
use lean_protocol::{decode_head, messages as m, Message};
use serde_json::{json, Map, Value};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the bridge is started.
#[derive(Debug, Clone)]
pub struct SpawnOptions {
    /// The binary; by default [`crate::find_bridge`] finds it.
    pub bridge: Option<PathBuf>,
    /// More arguments for it.
    pub args: Vec<OsString>,
    /// More variables of its environment.
    pub envs: Vec<(OsString, OsString)>,
    /// Whether what it writes to stderr goes to this program's stderr too; an [`crate::Exit`] has its end in any case.
    pub inherit_stderr: bool,
    /// Events that a request may have on the way before the bridge waits for its consumer.
    pub credit: u32,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self { bridge: None, args: Vec::new(), envs: Vec::new(), inherit_stderr: false, credit: 32 }
    }
}

/// How a model is loaded. The default is on the hardware GPU if there is one, with all cores and the model's own context.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// `auto`, `cpu` or `gpu`.
    pub backend: Option<String>,
    /// Threads of the CPU backend.
    pub threads: Option<u32>,
    /// Tokens that its sessions hold by default.
    pub context: Option<u32>,
    /// Precision of keys and values: `f32`, `f24`, `f16` or `q8_0`.
    pub kv: Option<String>,
    /// How exactly it is computed: `exact` or `fast`.
    pub precision: Option<String>,
    /// Ends the load.
    pub cancel: Option<CancelToken>,
    /// Is told the bytes done and the bytes in all.
    pub on_progress: Option<Arc<dyn Fn(u64, u64) + Send + Sync>>,
}

/// An engine in a process of its own. It ends with [`Engine::close`], and when it and all that it gave (models, sessions,
/// checkpoints, streams) are dropped.
pub struct Engine {
    connection: Arc<Connection>,
    options: SpawnOptions,
    hello: m::Hello,
}

impl Engine {
    /// Starts the bridge and waits for its greeting.
    pub fn spawn(options: SpawnOptions) -> Result<Self> {
        let (connection, hello) = Connection::open(&options)?;
        Ok(Self { connection, options, hello })
    }

    /// Starts another bridge as this one was started, for when this one has died. What this one gave stays with it: load the
    /// model again, and go on from the bytes or the file of a checkpoint.
    pub fn respawn(&self) -> Result<Self> {
        Self::spawn(self.options.clone())
    }

    /// Name and version of the engine.
    pub fn version(&self) -> &str {
        &self.hello.engine
    }

    /// What this build can do, such as `cpu`, `gpu`, `echo`.
    pub fn capabilities(&self) -> &[String] {
        &self.hello.capabilities
    }

    /// The bridge's process id.
    pub fn pid(&self) -> u32 {
        self.connection.pid()
    }

    /// Whether it still answers: not closed, not died.
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Loads a model file, or `echo`, the model without weights.
    pub fn load(&self, path: impl AsRef<Path>, options: LoadOptions) -> Result<Model> {
        let load = m::Load {
            path: seen_from_there(path.as_ref())?,
            backend: options.backend,
            threads: options.threads,
            context: options.context,
            progress: options.on_progress.is_some(),
        };
        let mut document = Map::new();
        if let Some(kv) = options.kv {
            document.insert("kv".into(), kv.into());
        }
        if let Some(precision) = options.precision {
            document.insert("precision".into(), precision.into());
        }
        let tail = if document.is_empty() { Vec::new() } else { to_json(&document) };
        let limits = Limits { cancel: options.cancel, timeout: None };
        let pending = self.connection.call(&load, &tail, LONG, &limits)?;
        let (loaded, info) = pending.answer::<m::Loaded>(|event| {
            if let (m::Progress::KIND, Some(listen)) = (event.kind, &options.on_progress) {
                if let Ok(p) = decode_head::<m::Progress>(event.head(), 0) {
                    listen(p.done, p.total);
                }
            }
        })?;
        let info: Value = lean_protocol::json::parse(&info).unwrap_or_else(|_| json!({}));
        Model::new(Handle::new(&self.connection, Kind::Model, loaded.model), info)
    }

    /// Ends the bridge; what still runs is cancelled. Otherwise that happens when all is dropped.
    pub fn close(self) {
        self.connection.close();
    }
}

/// A path as the bridge finds it too, whatever its working directory.
pub(crate) fn seen_from_there(path: &Path) -> Result<String> {
    let Some(text) = path.to_str() else {
        return Err(Error::invalid(format!("the path {} is not UTF-8", path.display())));
    };
    if text == "echo" || text.starts_with("echo?") || text.is_empty() {
        return Ok(text.into());
    }
    let whole = std::path::absolute(path).ok().and_then(|p| p.to_str().map(str::to_owned));
    Ok(whole.unwrap_or_else(|| text.into()))
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({}, process {})", self.hello.engine, self.pid())
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("backend", &self.backend)
            .field("threads", &self.threads)
            .field("context", &self.context)
            .field("kv", &self.kv)
            .field("precision", &self.precision)
            .finish_non_exhaustive()
    }
}
