//! Entries of equal size in buffers that grow: the pages of all states, and their convolution windows.
//!
//! An entry spans all layers, but every layer has its own buffer, so that the binding limit holds for one
//! layer's share and not for the sum. Entries are freed when their last owner drops them; a freed entry may be
//! written at once, since the queue runs in order.

use super::device::Gpu;
use super::pass::Pass;
use crate::error::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// One entry, shared by those who hold it.
pub type Entry = Arc<Slot>;

/// The place of an entry; given back on drop.
#[derive(Debug)]
pub struct Slot {
    index: u32,
    free: Arc<Mutex<Vec<u32>>>,
}

impl Slot {
    /// Its number in every layer's buffer.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
    }
}

/// All entries of a kind.
pub struct Pool {
    what: &'static str,
    /// Elements of an entry, by layer; 0 where a layer has none.
    elems: Vec<usize>,
    /// `[capacity][elems]`, by layer.
    buffers: Vec<wgpu::Buffer>,
    capacity: usize,
    free: Arc<Mutex<Vec<u32>>>,
    /// Times that its buffers were replaced.
    generation: u64,
}

impl Pool {
    /// Room for a few entries.
    pub fn new(gpu: &Gpu, what: &'static str, elems: Vec<usize>) -> Result<Self> {
        let mut pool =
            Pool { what, elems, buffers: Vec::new(), capacity: 0, free: Arc::default(), generation: 0 };
        pool.grow(gpu, 4)?;
        Ok(pool)
    }

    /// `count` entries with any content.
    pub fn take(&mut self, gpu: &Gpu, count: usize) -> Result<Vec<Entry>> {
        let missing = count.saturating_sub(self.lock().len());
        if missing > 0 {
            // Doubling keeps the copies of growing linear; near the limit just what is needed.
            let least = self.capacity + missing;
            self.grow(gpu, least.max((2 * self.capacity).min(self.most(gpu))))?;
        }
        let mut free = self.lock();
        let at = free.len() - count;
        let taken = free.split_off(at);
        drop(free);
        Ok(taken.into_iter().map(|index| Arc::new(Slot { index, free: self.free.clone() })).collect())
    }

    /// Grows with every replacement of the buffers.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Entries in use.
    pub fn used(&self) -> usize {
        self.capacity - self.lock().len()
    }

    /// A layer's buffer.
    pub fn buffer(&self, layer: usize) -> &wgpu::Buffer {
        &self.buffers[layer]
    }

    /// Where an entry lies in a layer's buffer: first byte and bytes.
    pub fn range(&self, layer: usize, entry: &Slot) -> (u64, u64) {
        let bytes = (self.elems[layer] * 4) as u64;
        (u64::from(entry.index) * bytes, bytes)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn most(&self, gpu: &Gpu) -> usize {
        let widest = self.elems.iter().copied().max().unwrap_or(0).max(1);
        (gpu.max_binding / (widest as u64 * 4)) as usize
    }

    fn grow(&mut self, gpu: &Gpu, capacity: usize) -> Result<()> {
        if capacity > self.most(gpu) {
            let wanted = self.elems.iter().map(|e| *e as u64).sum::<u64>() * 4 * capacity as u64;
            let what =
                format!("{} ({capacity} of them; this device's bindings hold {})", self.what, self.most(gpu));
            return Err(Error::OutOfMemory { wanted, what });
        }
        let mut buffers = Vec::with_capacity(self.elems.len());
        for elems in &self.elems {
            buffers.push(gpu.storage(self.what, (capacity * elems * 4) as u64)?);
        }
        let mut pass = Pass::new();
        for ((old, new), elems) in self.buffers.iter().zip(&buffers).zip(&self.elems) {
            pass.copy(old, 0, new, 0, (self.capacity * elems * 4) as u64);
        }
        pass.submit(gpu)?;
        self.lock().extend((self.capacity as u32..capacity as u32).rev());
        self.buffers = buffers;
        self.capacity = capacity;
        self.generation += 1;
        Ok(())
    }
}
