//! What lives in the bridge until it is dropped here.

use crate::connection::Connection;
use crate::{Error, Result};
use lean_protocol::messages as m;
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Model,
    Session,
    Checkpoint,
    Adapter,
}

pub(crate) struct Handle {
    pub connection: Arc<Connection>,
    pub id: u32,
    kind: Kind,
}

impl Handle {
    pub fn new(connection: &Arc<Connection>, kind: Kind, id: u32) -> Arc<Self> {
        Arc::new(Self { connection: connection.clone(), kind, id })
    }

    /// Its number, for requests to the bridge that it lives in.
    pub fn on(&self, connection: &Arc<Connection>) -> Result<u32> {
        if Arc::ptr_eq(&self.connection, connection) {
            return Ok(self.id);
        }
        Err(Error::invalid(format!("{:?} {} lives in another engine process", self.kind, self.id)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let (connection, id) = (&self.connection, self.id);
        match self.kind {
            Kind::Model => connection.post(&m::Unload { model: id }),
            Kind::Session => connection.post(&m::SessionClose { session: id }),
            Kind::Checkpoint => connection.post(&m::CheckpointDrop { checkpoint: id }),
            Kind::Adapter => connection.post(&m::AdapterDrop { adapter: id }),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} of process {})", self.kind, self.id, self.connection.pid())
    }
}
