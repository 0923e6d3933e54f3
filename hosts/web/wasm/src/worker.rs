//! What the engine asks of the worker that it runs in.

use std::cell::RefCell;
use wasm_bindgen::prelude::{wasm_bindgen, JsValue};

#[wasm_bindgen]
extern "C" {
    /// The worker's object.
    pub type Worker;

    /// Takes bytes for the client. They must be copied: the memory is the engine's.
    #[wasm_bindgen(method)]
    pub fn write(this: &Worker, bytes: &[u8]);

    /// Bytes of a model. Throws if there is no such source.
    #[wasm_bindgen(method, catch)]
    pub fn size(this: &Worker, source: &str) -> Result<f64, JsValue>;

    /// Fills `into` with a model's bytes from `offset`. Throws if it cannot.
    #[wasm_bindgen(method, catch)]
    pub fn read(this: &Worker, source: &str, offset: f64, into: &mut [u8]) -> Result<(), JsValue>;

    /// Ids of requests that were cancelled since it was last asked. Quick: it is asked between the layers of a pass.
    #[wasm_bindgen(method)]
    pub fn cancelled(this: &Worker) -> Vec<u32>;

    /// Hears that the GPU is gone, and why.
    #[wasm_bindgen(method)]
    pub fn lost(this: &Worker, reason: &str);

    /// Hears why this instance is about to trap.
    #[wasm_bindgen(method)]
    pub fn panicked(this: &Worker, message: &str);
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// Says who the worker is; the last one counts.
pub(crate) fn set(worker: Worker) {
    WORKER.set(Some(worker));
}

/// Calls the worker; `None` before there is one.
pub(crate) fn with<T>(call: impl FnOnce(&Worker) -> T) -> Option<T> {
    WORKER.with_borrow(|worker| worker.as_ref().map(call))
}

/// What an exception says.
pub(crate) fn message(thrown: &JsValue) -> String {
    /// An `Error`.
    #[wasm_bindgen]
    extern "C" {
        type Thrown;
        #[wasm_bindgen(method, getter, catch)]
        fn message(this: &Thrown) -> Result<Option<String>, JsValue>;
    }
    let error: &Thrown = wasm_bindgen::JsCast::unchecked_ref(thrown);
    let message = if thrown.is_object() { error.message().ok().flatten() } else { thrown.as_string() };
    message.unwrap_or_else(|| "unknown".into())
}
