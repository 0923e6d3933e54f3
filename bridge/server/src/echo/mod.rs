//! `echo`: a model without weights, so that a host's tests need none.
//!
//! It answers with what it was told: for text types with the text of the blocks appended since the last value,
//! for JSON types with the last JSON among them, one word a token. Everything around the model is real: types
//! and options are checked by the engine, sessions, checkpoints (also inside a value), budgets, cancellation and
//! credit behave as with weights. The load path says what else it should do, for tests of a host's edges:
//! `echo?step_ms=20&panic_at=3` (see [`Behaviour`]).

mod behaviour;
mod checkpoint;
mod generation;
mod session;

pub use behaviour::Behaviour;

use crate::port::{Checkpoint, Given, Host, LoadSpec, Model, OnProgress, Session};
use lean_engine::{CancelToken, Error, Restore, Restored, Result};
use serde_json::{json, Value};
use std::sync::Arc;

/// Tokens of context unless the load says otherwise.
const CONTEXT: usize = 4096;

/// Loads echo models and leaves every other path to the host behind it.
pub struct EchoHost<H>(pub H);

impl<H: Host> Host for EchoHost<H> {
    fn name(&self) -> String {
        self.0.name()
    }
    fn capabilities(&self) -> Vec<String> {
        let mut all = self.0.capabilities();
        all.push("echo".into());
        all
    }
    fn cancel(&self) -> CancelToken {
        self.0.cancel()
    }
    fn load(
        &self,
        spec: &LoadSpec,
        on_progress: OnProgress<'_>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn Model>> {
        match Behaviour::from_path(&spec.path)? {
            None => self.0.load(spec, on_progress, cancel),
            Some(behaviour) => EchoModel::load(behaviour, spec, on_progress, cancel),
        }
    }
}

/// A host that knows no other models.
pub struct NoModels;

impl Host for NoModels {
    fn name(&self) -> String {
        format!("lean {}", env!("CARGO_PKG_VERSION"))
    }
    fn capabilities(&self) -> Vec<String> {
        Vec::new()
    }
    fn load(&self, spec: &LoadSpec, _: OnProgress<'_>, _: &CancelToken) -> Result<Arc<dyn Model>> {
        Err(Error::ModelIo { path: spec.path.clone(), reason: "only echo can be loaded here".into() })
    }
}

/// The loaded echo.
pub(crate) struct EchoModel {
    behaviour: Behaviour,
    context: usize,
}

impl EchoModel {
    fn load(
        behaviour: Behaviour,
        spec: &LoadSpec,
        on_progress: OnProgress<'_>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn Model>> {
        if let Some(backend) = spec.backend.as_deref() {
            backend.parse::<lean_engine::BackendChoice>()?;
        }
        let total = behaviour.load_steps.max(1) as u64;
        for done in 0..=total {
            behaviour.pause(behaviour.load_ms, cancel)?;
            on_progress(done, total)?;
        }
        Ok(Arc::new(EchoModel { behaviour, context: spec.context.unwrap_or(CONTEXT) }))
    }
}

impl Model for EchoModel {
    fn info(&self) -> Value {
        json!({
            "architecture": "echo",
            "name": "echo",
            "backend": "cpu",
            "context_length": self.context,
            "exactness_class": "echo",
        })
    }
    fn open(&self, context: Option<usize>) -> Result<Box<dyn Session>> {
        let state = session::State::default();
        Ok(Box::new(session::EchoSession::new(
            self.behaviour.clone(),
            context.unwrap_or(self.context),
            state,
        )?))
    }
    fn restore(&self, checkpoint: &dyn Checkpoint, context: Option<usize>) -> Result<Box<dyn Session>> {
        let echo = checkpoint.as_any().downcast_ref::<checkpoint::EchoCheckpoint>();
        let echo = echo.ok_or_else(|| Error::Incompatible {
            what: "model".into(),
            expected: "echo".into(),
            found: "a checkpoint of another model".into(),
        })?;
        let context = context.unwrap_or(self.context);
        Ok(Box::new(session::EchoSession::new(self.behaviour.clone(), context, echo.state.clone())?))
    }
    fn stats(&self) -> Value {
        json!({})
    }
    fn set_prefix_cache(&self, _bytes: u64) {}
    fn checkpoint(&self, given: Given<'_>) -> Result<(Arc<dyn Checkpoint>, Restored)> {
        let restored = match given.policy {
            Restore::Reprefill => Restored::Reprefilled,
            Restore::Exact | Restore::Convert => Restored::Imported,
        };
        Ok((Arc::new(checkpoint::EchoCheckpoint::from_bytes(given.bytes)?), restored))
    }
}
