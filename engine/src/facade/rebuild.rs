//! Sessions that go on after their device was lost.

use super::model::Model;
use super::session::Session;
use crate::context::{Checkpoint, Restore, Restored};
use crate::error::{Error, Result};
use crate::generate::Resume;

impl Model {
    /// A session like `lost`, whose device was lost, on this model, loaded anew from the same file: with the state of
    /// `checkpoint` where that was persisted and holds a beginning of the session's tokens, whatever is missing running
    /// again with the next step; without one all tokens run again. [`Session::restored`] says which of it was done. A
    /// value in progress can be resumed as in `lost`.
    ///
    /// # Errors
    /// [`Error::Incompatible`] where the model is another one, or an adapter of the session is not loaded on it; those of
    /// running out of memory.
    pub fn rebuild(&self, lost: &Session, checkpoint: Option<&Checkpoint>) -> Result<Session> {
        let core = &self.0;
        let [own, other] = [core.identity.fingerprint, lost.model.0.identity.fingerprint];
        if own != other {
            return Err(Error::Incompatible {
                what: "model fingerprint".into(),
                expected: format!("{own:016x}"),
                found: format!("{other:016x}"),
            });
        }
        let adapters = core.adapters.find(&lost.seq.adapters().uses())?;
        let capacity = lost.seq.capacity;
        let begins = |c: &&Checkpoint| lost.seq.tokens.starts_with(c.tokens());
        let taken = checkpoint.filter(begins).map(|checkpoint| {
            let vocab = core.info.vocab_size;
            let (policy, own) = (Restore::Convert, &core.identity);
            checkpoint.restore(&core.backend, own, &core.adapters, policy, capacity, vocab)
        });
        let (mut seq, how) = match taken {
            Some(Ok((seq, _, how))) if seq.adapters().uses() == lost.seq.adapters().uses() => (seq, how),
            // One that lives on the lost device, has other adapters or is of another layout, is of no use.
            None
            | Some(
                Ok(_) | Err(Error::DeviceLost { .. } | Error::Device { .. } | Error::Incompatible { .. }),
            ) => {
                let mut seq = core.sequence(capacity)?;
                seq.adapt(adapters)?;
                (seq, Restored::Reprefilled)
            }
            Some(Err(error)) => return Err(error),
        };
        seq.tokens.clone_from(&lost.seq.tokens);
        let resume = lost.suspended.as_ref().map(Resume::to_bytes).transpose()?;
        Session::new(self.clone(), seq, resume, Some(how))
    }

    /// For tests of what follows: loses the device, as a driver would.
    #[doc(hidden)]
    pub fn lose_device(&self) {
        self.0.backend.lose_device();
    }
}
