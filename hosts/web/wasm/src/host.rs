//! Loads models from the worker's sources.

use crate::source::Source;
use crate::worker;
use lean_engine::gguf::Gguf;
use lean_engine::{BackendChoice, CancelToken, Error, Model, Result};
use lean_server::engine::{capabilities, load_options, served};
use lean_server::port::{Host, LoadSpec, Model as Served, OnProgress};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// State kept of earlier contexts: less than natively, since a page's memory ends at 4 GiB and never shrinks.
const PREFIX_CACHE_BYTES: u64 = 64 << 20;

thread_local! {
    static MODELS: RefCell<HashMap<String, Model>> = RefCell::new(HashMap::new());
    static ASK: RefCell<Option<fn() -> bool>> = const { RefCell::new(None) };
}

/// The model that was loaded from a source.
pub(crate) fn model(source: &str) -> Result<Model> {
    let model = MODELS.with_borrow(|models| models.get(source).cloned());
    model.ok_or_else(|| Error::invalid("source", format!("no model was loaded from {source:?}")))
}

/// Lets go of the model of a source, which sessions of it keep.
pub(crate) fn forget(source: &str) {
    MODELS.with_borrow_mut(|models| models.remove(source));
}

/// Says who tells what was cancelled, whenever the engine looks.
pub(crate) fn ask(look: fn() -> bool) {
    ASK.set(Some(look));
}

/// The worker's models.
pub(crate) struct WebHost;

impl Host for WebHost {
    fn name(&self) -> String {
        format!("lean {} (WebAssembly)", env!("CARGO_PKG_VERSION"))
    }

    fn capabilities(&self) -> Vec<String> {
        capabilities()
    }

    fn cancel(&self) -> CancelToken {
        ASK.with_borrow(|ask| ask.map_or_else(CancelToken::new, CancelToken::asking))
    }

    fn load(
        &self,
        spec: &LoadSpec,
        on_progress: OnProgress<'_>,
        cancel: &CancelToken,
    ) -> Result<Arc<dyn Served>> {
        let mut options = load_options(spec, cancel)?;
        // A page has one adapter, the browser's choice: who asks for it gets it, and `auto` takes no software.
        options.allow_software_gpu = options.backend == BackendChoice::Gpu;
        options.prefix_cache = Some(PREFIX_CACHE_BYTES);
        let gguf = Gguf::from_reader(Box::new(Source::open(&spec.path)?))?;
        let model = Model::from_gguf_with(gguf, options, on_progress)?;
        MODELS.with_borrow_mut(|models| models.insert(spec.path.clone(), model.clone()));
        Ok(served(model, spec.context))
    }
}

/// Tells the worker why the instance ends.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        worker::with(|w| w.panicked(&panic.to_string()));
    }));
}
