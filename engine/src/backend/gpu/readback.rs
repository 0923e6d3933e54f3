//! Bytes on their way back from the device.

use super::device::Gpu;
use super::pair;
use super::pass::Pass;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::task::Poll;

/// Set by a callback of the device.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<AtomicU8>);

impl Signal {
    /// Set once everything submitted so far has run.
    pub fn after_submitted(gpu: &Gpu) -> Self {
        let signal = Signal::default();
        let set = signal.clone();
        gpu.queue.on_submitted_work_done(move || set.set(true));
        signal
    }

    fn set(&self, ok: bool) {
        self.0.store(if ok { 1 } else { 2 }, Ordering::Release);
        pair::heard();
    }

    /// Whether it was set; an error if the device reported a failure.
    pub fn is_set(&self) -> Result<bool> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::DeviceLost { reason: "a result could not be mapped".into() }),
        }
    }
}

/// A host-visible buffer that a pass fills.
#[derive(Debug, Clone)]
pub struct Readback {
    buffer: wgpu::Buffer,
    ready: Signal,
}

impl Readback {
    /// Room for `bytes`.
    pub fn new(gpu: &Gpu, what: &str, bytes: u64) -> Result<Self> {
        use wgpu::BufferUsages as U;
        Ok(Readback { buffer: gpu.buffer(what, bytes, U::MAP_READ | U::COPY_DST)?, ready: Signal::default() })
    }

    /// A buffer that was read before and has been unmapped.
    pub fn again(buffer: wgpu::Buffer) -> Self {
        Readback { buffer, ready: Signal::default() }
    }

    /// The buffer, for another use. Its content was read.
    pub fn end(&self) -> wgpu::Buffer {
        self.buffer.unmap();
        self.buffer.clone()
    }

    /// Records a copy into it.
    pub fn copy(&self, pass: &mut Pass, from: &wgpu::Buffer, at: u64, to_at: u64, bytes: u64) {
        pass.copy(from, at, &self.buffer, to_at, bytes);
    }

    /// Copies the first bytes of a buffer into it.
    pub fn copy_now(&self, encoder: &mut wgpu::CommandEncoder, from: &wgpu::Buffer, bytes: u64) {
        encoder.copy_buffer_to_buffer(from, 0, &self.buffer, 0, Some(bytes));
    }

    /// Asks for the content, after the pass that fills it was submitted.
    pub fn request(&self) {
        let ready = self.ready.clone();
        self.buffer.map_async(wgpu::MapMode::Read, .., move |result| ready.set(result.is_ok()));
    }

    /// Whether the content is there.
    pub fn is_ready(&self) -> Result<bool> {
        self.ready.is_set()
    }

    /// The content as values of 4 or 8 bytes, once it is there.
    pub fn poll<T: bytemuck::Pod>(&self) -> Result<Poll<Vec<T>>> {
        if !self.is_ready()? {
            return Ok(Poll::Pending);
        }
        let view = self
            .buffer
            .get_mapped_range(..)
            .map_err(|e| Error::Device { reason: format!("readback: {e}") })?;
        Ok(Poll::Ready(bytemuck::pod_collect_to_vec(&view)))
    }

    /// The content, waiting for it.
    pub fn wait<T: bytemuck::Pod>(&self, gpu: &Gpu) -> Result<Vec<T>> {
        pair::until(gpu, || self.is_ready())?;
        match self.poll()? {
            Poll::Ready(content) => Ok(content),
            Poll::Pending => {
                Err(Error::Internal("a mapped buffer is not there after waiting for the device".into()))
            }
        }
    }
}
