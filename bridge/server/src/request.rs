//! One open request: its cancel flag, its credit, and what other frames want of it.

use crate::turn::{Signal, BLOCKS};
use lean_engine::{CancelToken, Restore, Result};
use lean_protocol::Frame;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// How a checkpoint's bytes are to be read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    /// The checkpoint that they are a delta of.
    pub parent: Option<u32>,
    /// What may be done to a state of another exactness class, where the host says it.
    pub restore: Option<Restore>,
}

/// A blob that is being uploaded with the request.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    pub model: u32,
    /// What else the request says.
    pub how: How,
    pub bytes: Vec<u8>,
    pub crc: u32,
}

#[derive(Default)]
struct Flow {
    credit: u32,
    /// Checkpoint requests that wait for the generation's next pause.
    takes: VecDeque<Arc<Request>>,
    /// Whether the request is a generation that still answers them.
    gives_checkpoints: bool,
    upload: Option<Upload>,
    /// Events of a call that could not wait for credit where it was.
    held: VecDeque<Frame>,
}

pub(crate) struct Request {
    pub id: u32,
    pub cancel: CancelToken,
    flow: Mutex<Flow>,
    changed: Signal,
}

impl Request {
    pub fn new(id: u32, credit: u32, cancel: CancelToken) -> Self {
        let flow = Flow { credit, ..Flow::default() };
        Self { id, cancel, flow: Mutex::new(flow), changed: Signal::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the flag and wakes the worker if it is parked.
    pub fn cancel(&self) {
        self.cancel.cancel();
        // Under the lock, or a worker between its check and its wait would sleep through it.
        let _flow = self.lock();
        self.changed.notify_all();
    }

    pub fn add_credit(&self, events: u32) {
        let mut flow = self.lock();
        flow.credit = flow.credit.saturating_add(events);
        self.changed.notify_all();
    }

    /// Waits until an event may be sent and `send` has sent those that are held; meanwhile hands out checkpoint
    /// requests.
    pub async fn wait_credit(
        &self,
        serve: &mut dyn FnMut(Arc<Request>),
        send: &dyn Fn(Frame) -> Result<()>,
    ) -> Result<()> {
        let mut flow = self.lock();
        loop {
            if let Some(take) = flow.takes.pop_front() {
                drop(flow);
                serve(take);
                flow = self.lock();
                continue;
            }
            self.cancel.check()?;
            if flow.credit > 0 {
                let Some(frame) = flow.held.pop_front() else { return Ok(()) };
                flow.credit -= 1;
                drop(flow);
                send(frame)?;
                flow = self.lock();
                continue;
            }
            flow = self.changed.wait(&self.flow, flow).await;
        }
    }

    /// Waits until all events that are held have been sent.
    pub async fn wait_sent(&self, send: &dyn Fn(Frame) -> Result<()>) -> Result<()> {
        let mut flow = self.lock();
        while !flow.held.is_empty() {
            self.cancel.check()?;
            if flow.credit == 0 {
                flow = self.changed.wait(&self.flow, flow).await;
                continue;
            }
            flow.credit -= 1;
            let frame = flow.held.pop_front();
            drop(flow);
            frame.map_or(Ok(()), send)?;
            flow = self.lock();
        }
        Ok(())
    }

    /// Hands out checkpoint requests without waiting for credit.
    pub fn poll(&self, serve: &mut dyn FnMut(Arc<Request>)) -> Result<()> {
        loop {
            let take = self.lock().takes.pop_front();
            match take {
                Some(take) => serve(take),
                None => return self.cancel.check(),
            }
        }
    }

    /// Spends credit for an event in the middle of a call, and waits for it; where that is not possible, the event is
    /// held until [`Request::wait_credit`]. Gives back what may be sent now.
    pub fn spend_credit(&self, event: Frame) -> Result<Option<Frame>> {
        let mut flow = self.lock();
        loop {
            self.cancel.check()?;
            if flow.credit > 0 && flow.held.is_empty() {
                flow.credit -= 1;
                return Ok(Some(event));
            }
            if !BLOCKS {
                flow.held.push_back(event);
                return Ok(None);
            }
            flow = self.changed.block(flow);
        }
    }

    /// From now on checkpoint requests may be handed over.
    pub fn open_takes(&self) {
        self.lock().gives_checkpoints = true;
    }

    /// Hands over a checkpoint request; gives it back if this is not a running generation.
    pub fn hand_over(&self, take: Arc<Request>) -> std::result::Result<(), Arc<Request>> {
        let mut flow = self.lock();
        if !flow.gives_checkpoints {
            return Err(take);
        }
        flow.takes.push_back(take);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends that; what was not served comes back.
    pub fn close_takes(&self) -> VecDeque<Arc<Request>> {
        let mut flow = self.lock();
        flow.gives_checkpoints = false;
        std::mem::take(&mut flow.takes)
    }

    pub fn set_upload(&self, upload: Upload) {
        self.lock().upload = Some(upload);
    }

    pub fn take_upload(&self) -> Option<Upload> {
        self.lock().upload.take()
    }
}
