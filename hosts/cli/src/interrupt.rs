//! Ctrl-C cancels the generation in progress; a second one ends the program.

use lean_engine::CancelToken;
use std::sync::{Mutex, PoisonError};

static CURRENT: Mutex<Option<CancelToken>> = Mutex::new(None);

/// The token that Ctrl-C cancels from now on. Installs the handler on first use.
pub fn token() -> CancelToken {
    let token = CancelToken::new();
    let first = current().replace(token.clone()).is_none();
    if first {
        // Without a handler Ctrl-C still ends the program, only less politely.
        let _ = ctrlc::set_handler(|| match &*current() {
            Some(token) if !token.is_cancelled() => token.cancel(),
            _ => std::process::exit(130),
        });
    }
    token
}

fn current() -> std::sync::MutexGuard<'static, Option<CancelToken>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}
