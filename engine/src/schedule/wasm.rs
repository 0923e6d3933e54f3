//! Waiting for a device in the browser is not possible in a synchronous call.

use crate::error::{Error, Result};
use std::task::Poll;

/// The CPU backend is ready at once; anything else needs the asynchronous interface.
pub(super) fn until_ready<T>(
    mut poll: impl FnMut() -> Result<Poll<T>>,
    _check: impl Fn() -> Result<()>,
) -> Result<T> {
    match poll()? {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => {
            Err(Error::Device { reason: "this backend cannot be waited for synchronously here".into() })
        }
    }
}
