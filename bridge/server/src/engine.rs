//! The real engine behind the port.

use crate::port::{self, LoadSpec, OnPrefill, OnProgress};
use lean_engine::gguf::Gguf;
#[cfg(feature = "gpu")]
pub use lean_engine::without_mesas_device_selection;
use lean_engine::{
    Adapter, Block, BranchRequest, CancelToken, Checkpoint, Error, Event, Generation, LoadOptions, Model,
    Request, RequestOptions, Restore, Restored, Result, SaveOptions, Session, SessionOptions, TypeSource,
};
use serde::Deserialize;
use serde_json::Value;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Loads model files.
pub struct EngineHost;

impl port::Host for EngineHost {
    fn name(&self) -> String {
        format!("lean {}", env!("CARGO_PKG_VERSION"))
    }

    fn capabilities(&self) -> Vec<String> {
        capabilities()
    }

    fn load(
        &self,
        spec: &LoadSpec,
        on_progress: OnProgress<'_>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn port::Model>> {
        let options = load_options(spec, cancel)?;
        if spec.path.is_empty() {
            return Err(Error::invalid("path", "is empty; give the path of a .gguf file"));
        }
        let model = Gguf::open(spec.path.as_ref(), options.mmap)
            .and_then(|gguf| Model::from_gguf_with(gguf, options, on_progress));
        Ok(served(model.map_err(|e| e.of_file(&spec.path))?, spec.context))
    }
}

/// What this build of the engine can do.
pub fn capabilities() -> Vec<String> {
    let mut all = vec!["cpu".to_string()];
    if cfg!(feature = "gpu") {
        all.push("gpu".into());
    }
    all
}

/// What a host asks of a load, for the engine.
///
/// # Errors
/// [`Error::InvalidArgument`] for a backend, a type of keys and values or a precision that there is not.
pub fn load_options(spec: &LoadSpec, cancel: &CancelToken) -> Result<LoadOptions> {
    let kv = spec.kv.as_deref().unwrap_or("f32");
    Ok(LoadOptions {
        backend: spec.backend.as_deref().unwrap_or("auto").parse()?,
        threads: spec.threads.unwrap_or(0),
        kv: kv.parse().map_err(|e| Error::invalid("kv", e))?,
        precision: spec.precision.as_deref().unwrap_or("exact").parse()?,
        cancel: cancel.clone(),
        ..LoadOptions::default()
    })
}

/// A model of the engine behind the port; `context` is the default of its sessions.
pub fn served(model: Model, context: Option<usize>) -> Arc<dyn port::Model> {
    Arc::new(EngineModel { model, context })
}

struct EngineModel {
    model: Model,
    /// Default context of its sessions.
    context: Option<usize>,
}

impl port::Model for EngineModel {
    fn info(&self) -> Value {
        serde_json::to_value(self.model.info()).unwrap_or_default()
    }

    fn open(&self, context: Option<usize>) -> Result<Box<dyn port::Session>> {
        Ok(Box::new(EngineSession(self.model.session(SessionOptions { context: context.or(self.context) })?)))
    }

    fn restore(
        &self,
        checkpoint: &dyn port::Checkpoint,
        context: Option<usize>,
    ) -> Result<Box<dyn port::Session>> {
        let checkpoint =
            checkpoint.as_any().downcast_ref::<EngineCheckpoint>().ok_or_else(|| Error::Incompatible {
                what: "model".into(),
                expected: self.model.info().name.clone(),
                found: "a checkpoint of the echo model".into(),
            })?;
        let options = SessionOptions { context };
        Ok(Box::new(EngineSession(self.model.restore_with(&checkpoint.0, Restore::Exact, options)?)))
    }

    fn stats(&self) -> Value {
        let (passes, memory) = (self.model.stats(), self.model.memory());
        serde_json::json!({
            "passes": passes.passes,
            "slots": passes.slots,
            "tokens": passes.tokens,
            "pages_copied": self.model.pages_copied(),
            "memory": memory,
            "prefix": self.model.prefix_stats(),
        })
    }

    fn set_prefix_cache(&self, bytes: u64) {
        self.model.set_prefix_cache(bytes);
    }

    fn checkpoint(&self, given: port::Given<'_>) -> Result<(Arc<dyn port::Checkpoint>, Restored)> {
        let checkpoint = match given.parent {
            Some(parent) => Checkpoint::from_delta(given.bytes, &engine_checkpoint(parent)?.0)?,
            None => Checkpoint::from_bytes(given.bytes)?,
        };
        // Restored once and thrown away: one that does not fit is refused here and not at its first use. What
        // is kept lives in the backend, in its class, so that every use shares its pages.
        let session = self.model.restore(&checkpoint, given.policy)?;
        let restored = session.restored().unwrap_or(Restored::Imported);
        Ok((Arc::new(EngineCheckpoint(session.checkpoint()?)), restored))
    }

    fn load_adapter(&self, path: &str) -> Result<Arc<dyn port::Adapter>> {
        Ok(Arc::new(EngineAdapter(self.model.load_adapter(path)?)))
    }
}

fn engine_checkpoint(checkpoint: &dyn port::Checkpoint) -> Result<&EngineCheckpoint> {
    let found = checkpoint.as_any().downcast_ref::<EngineCheckpoint>();
    found.ok_or_else(|| Error::invalid("parent", "belongs to another engine"))
}

struct EngineAdapter(Adapter);

impl port::Adapter for EngineAdapter {
    fn info(&self) -> Value {
        serde_json::to_value(self.0.info()).unwrap_or_default()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct EngineCheckpoint(Checkpoint);

impl port::Checkpoint for EngineCheckpoint {
    fn tokens(&self) -> usize {
        self.0.tokens().len()
    }
    fn to_bytes(&self) -> Result<Vec<u8>> {
        self.0.to_bytes()
    }
    fn to_bytes_with(&self, compress: bool, parent: Option<&dyn port::Checkpoint>) -> Result<Vec<u8>> {
        let parent = parent.map(engine_checkpoint).transpose()?.map(|p| &p.0);
        self.0.to_bytes_with(&SaveOptions { compress, parent })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct EngineSession(Session);

impl port::Session for EngineSession {
    fn tokens(&self) -> usize {
        self.0.tokens().len()
    }

    fn append(
        &mut self,
        blocks: &Value,
        replace: bool,
        cancel: &CancelToken,
        on_prefill: OnPrefill<'_>,
    ) -> Result<()> {
        let blocks = Vec::<Block>::deserialize(blocks).map_err(|e| Error::invalid("blocks", e))?;
        let progress = |done, total| {
            if on_prefill(done, total).is_err() {
                cancel.cancel();
            }
        };
        if replace {
            self.0.set_context_with(&blocks, cancel, progress).map(|_reused| ())
        } else {
            self.0.append_with(&blocks, cancel, progress)
        }
    }

    fn cut(&mut self, range: Range<usize>, cancel: &CancelToken, on_prefill: OnPrefill<'_>) -> Result<()> {
        let progress = |done, total| {
            if on_prefill(done, total).is_err() {
                cancel.cancel();
            }
        };
        self.0.drop_range_with(range, cancel, progress).map(|_ran| ())
    }

    fn generate_many(&self, branches: &[port::Branch<'_>]) -> Result<Vec<Box<dyn port::Generation>>> {
        let mut parts = Vec::with_capacity(branches.len());
        for branch in branches {
            let blocks = Vec::<Block>::deserialize(branch.blocks).map_err(|e| Error::invalid("blocks", e))?;
            // Whoever cancels one branch does not end the others.
            let request = request(branch.ty, branch.options, &CancelToken::new())?;
            parts.push((blocks, Request { cancel: branch.cancel.clone(), ..request }));
        }
        let requests: Vec<_> =
            parts.iter().map(|(blocks, request)| BranchRequest { blocks, request }).collect();
        let generations = self.0.generate_many(&requests)?;
        Ok(generations.into_iter().map(|g| Box::new(EngineGeneration(g)) as _).collect())
    }

    fn adapt(
        &mut self,
        adapters: &[(Arc<dyn port::Adapter>, f32)],
        cancel: &CancelToken,
        on_prefill: OnPrefill<'_>,
    ) -> Result<()> {
        let mut list = Vec::new();
        for (adapter, scale) in adapters {
            let adapter = adapter.as_any().downcast_ref::<EngineAdapter>();
            let adapter = adapter.ok_or_else(|| Error::invalid("adapter", "belongs to another engine"))?;
            list.push((adapter.0.clone(), *scale));
        }
        self.0.set_adapters_with(&list, cancel, |done, total| {
            if on_prefill(done, total).is_err() {
                cancel.cancel();
            }
        })
    }

    fn fork(&self) -> Result<Box<dyn port::Session>> {
        Ok(Box::new(EngineSession(self.0.fork()?)))
    }

    fn checkpoint(&self) -> Result<Arc<dyn port::Checkpoint>> {
        Ok(Arc::new(EngineCheckpoint(self.0.checkpoint()?)))
    }

    fn check(&self, ty: &Value, options: &Value, cancel: &CancelToken) -> Result<()> {
        request(ty, options, cancel)?.check()
    }

    fn generate(
        self: Box<Self>,
        ty: Option<&Value>,
        options: &Value,
        cancel: &CancelToken,
    ) -> Result<Box<dyn port::Generation>> {
        let started = match ty {
            None => self.0.into_resumed(cancel.clone()),
            Some(ty) => {
                let request = request(ty, options, cancel)?;
                self.0.into_generation(&request)
            }
        };
        let generation = started.map_err(|(_session, error)| error)?;
        Ok(Box::new(EngineGeneration(generation)))
    }
}

/// A request from its JSON parts.
fn request(ty: &Value, options: &Value, cancel: &CancelToken) -> Result<Request> {
    let ty = TypeSource::deserialize(ty).map_err(|e| Error::invalid("type", e))?;
    let options = RequestOptions::deserialize(options).map_err(|e| Error::invalid("options", e))?;
    Request::from_parts_within(ty, options, cancel.clone())
}

struct EngineGeneration(Generation<Session>);

impl port::Generation for EngineGeneration {
    fn next(&mut self) -> Result<Option<port::Event>> {
        Ok(match self.0.next()? {
            None => None,
            Some(Event::Prefill { done, total }) => Some(port::Event::Prefill { done, total }),
            Some(Event::Token { id, text, forced }) => Some(port::Event::Token { id, text, forced }),
            Some(Event::Text { text }) => Some(port::Event::Text { text }),
            Some(Event::Partial { path, json, final_bytes }) => {
                Some(port::Event::Partial { path, json, final_bytes })
            }
            Some(Event::Candidates { candidates }) => {
                let json = serde_json::to_string(&candidates);
                Some(port::Event::Candidates { json: json.map_err(|e| Error::Internal(e.to_string()))? })
            }
            Some(other) => {
                return Err(Error::Internal(format!("the bridge does not know the event {other:?}")))
            }
        })
    }

    fn checkpoint(&mut self) -> Result<Arc<dyn port::Checkpoint>> {
        Ok(Arc::new(EngineCheckpoint(self.0.checkpoint()?)))
    }

    fn finish(self: Box<Self>) -> Result<(port::Output, Box<dyn port::Session>)> {
        let (session, output) = self.0.finish_with_session();
        let output = output?;
        let output = port::Output {
            value: output.value,
            text: output.text,
            finish: output.finish.name().into(),
            usage: serde_json::to_value(&output.usage).unwrap_or_default(),
            confidence: output.confidence.and_then(|c| serde_json::to_value(c).ok()),
            warnings: output.warnings,
        };
        Ok((output, Box::new(EngineSession(session))))
    }
}
