//! Ctrl-C cancels the work in progress; a second one, or one while there is none, ends the program.

use lean_engine::CancelToken;
use std::sync::{Mutex, Once, PoisonError};

/// Exit status of a program that Ctrl-C ended.
const STATUS: i32 = 130;

static CURRENT: Mutex<Option<CancelToken>> = Mutex::new(None);

/// The token that Ctrl-C cancels from now on. Installs the handler on first use.
pub fn token() -> CancelToken {
    static HANDLER: Once = Once::new();
    let token = CancelToken::new();
    *current() = Some(token.clone());
    // Without a handler Ctrl-C still ends the program, only less politely.
    HANDLER.call_once(|| drop(ctrlc::set_handler(on_interrupt)));
    token
}

/// Says that nothing looks at the token any more, so that Ctrl-C ends the program at once.
pub fn release() {
    *current() = None;
}

fn on_interrupt() {
    match &*current() {
        Some(token) if !token.is_cancelled() => token.cancel(),
        _ => std::process::exit(STATUS),
    }
}

fn current() -> std::sync::MutexGuard<'static, Option<CancelToken>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}
