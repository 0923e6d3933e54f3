//! An echo checkpoint: a magic, a checksum, the state as JSON.

use super::session::{pieces, State};
use crate::port::Checkpoint;
use lean_engine::{Error, Result};
use lean_protocol::crc32::crc32;
use std::any::Any;

const MAGIC: &[u8; 8] = b"leanECHO";

pub(super) struct EchoCheckpoint {
    pub state: State,
}

impl EchoCheckpoint {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |reason: &str| Error::bad_checkpoint("echo", reason);
        let body =
            bytes.strip_prefix(MAGIC).ok_or_else(|| bad("these are not the bytes of an echo checkpoint"))?;
        let (digest, body) = body.split_first_chunk::<4>().ok_or_else(|| bad("it ends in its header"))?;
        if u32::from_le_bytes(*digest) != crc32(body) {
            return Err(bad("the digest does not match"));
        }
        let value = lean_protocol::json::parse(body).map_err(|e| bad(&e.to_string()))?;
        let state: State = serde_json::from_value(value).map_err(|e| bad(&e.to_string()))?;
        let told: usize = state.told.iter().map(|t| pieces(t).len()).sum();
        let sound = state.answered <= state.told.len()
            && told <= state.tokens
            && state.value.as_ref().is_none_or(|v| v.is_sound());
        if !sound {
            return Err(bad("its counts contradict each other"));
        }
        Ok(Self { state })
    }
}

impl Checkpoint for EchoCheckpoint {
    fn tokens(&self) -> usize {
        self.state.tokens
    }
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_vec(&self.state).map_err(|e| Error::Internal(e.to_string()))?;
        Ok([&MAGIC[..], &crc32(&body).to_le_bytes(), &body].concat())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
