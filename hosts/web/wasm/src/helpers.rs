//! Workers of the page as threads of the engine, in the build for threads.

use wasm_bindgen::prelude::wasm_bindgen;

/// Makes the calling worker, which has this instance's module and memory, a thread of the engine. Never returns.
#[wasm_bindgen]
pub fn help() {
    lean_engine::helpers::help()
}

/// Threads that wait for work.
#[wasm_bindgen]
pub fn helpers() -> u32 {
    lean_engine::helpers::idle() as u32
}
