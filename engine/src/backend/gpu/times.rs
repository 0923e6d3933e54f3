//! How long kernels take, while somebody asks: a timestamp before and after each dispatch. Or how long the device has
//! nothing to do: a timestamp before and after each run of dispatches, which slows nothing down.

use super::device::Gpu;
use super::readback::Readback;
use crate::backend::KernelTime;
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// Dispatches of one submission that can be timed.
const MOST: u32 = wgpu::QUERY_SET_MAX_QUERIES / 2;

/// A kernel and its workgroups: where a kernel serves several matrices, the number of workgroups tells them apart.
type Label = (&'static str, [u32; 3]);

/// What was timed since somebody began to ask.
pub struct Times {
    /// Each dispatch by itself.
    each: bool,
    waiting: Vec<(Vec<Label>, Readback)>,
}

/// The timestamps of one submission.
pub struct Clock {
    /// Each dispatch is timed by itself.
    pub each: bool,
    set: wgpu::QuerySet,
    labels: Vec<Label>,
    stamps: wgpu::Buffer,
    read: Readback,
}

impl Clock {
    /// For a submission of so many dispatches; those beyond what a set holds are not timed.
    pub fn new(gpu: &Gpu, times: &Times, dispatches: u64) -> Result<Self> {
        use wgpu::BufferUsages as U;
        let count = dispatches.clamp(1, u64::from(MOST)) as u32 * 2;
        let bytes = u64::from(count) * 8;
        Ok(Clock {
            each: times.each,
            set: gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("kernel times"),
                ty: wgpu::QueryType::Timestamp,
                count,
            }),
            labels: Vec::new(),
            stamps: gpu.buffer("kernel times", bytes, U::QUERY_RESOLVE | U::COPY_SRC)?,
            read: Readback::new(gpu, "kernel times on their way to the host", bytes)?,
        })
    }

    /// The timestamps around a dispatch that is a pass by itself.
    pub fn around(
        &mut self,
        kernel: &'static str,
        grid: [u32; 3],
    ) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let at = self.labels.len() as u32;
        if at >= MOST {
            return None;
        }
        self.labels.push((kernel, grid));
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(2 * at),
            end_of_pass_write_index: Some(2 * at + 1),
        })
    }

    /// Records the way of the timestamps to the host.
    pub fn finish(&self, encoder: &mut wgpu::CommandEncoder) {
        let count = 2 * self.labels.len() as u32;
        if count > 0 {
            encoder.resolve_query_set(&self.set, 0..count, &self.stamps, 0);
            self.read.copy_now(encoder, &self.stamps, u64::from(count) * 8);
        }
    }
}

impl Times {
    /// Nothing yet; `each` dispatch is to be timed by itself, or runs of them.
    pub fn new(each: bool) -> Self {
        Times { each, waiting: Vec::new() }
    }

    /// How long the device worked and how long it waited between that, in seconds, from the first to the last of what was
    /// timed by runs; waits for the device.
    fn shares(self, gpu: &Gpu) -> Result<Vec<KernelTime>> {
        let period = f64::from(gpu.queue.get_timestamp_period()) * 1e-9;
        let mut runs: Vec<[u64; 2]> = Vec::new();
        for (labels, read) in self.waiting {
            let stamps: Vec<u64> = read.wait(gpu)?;
            runs.extend(stamps.chunks_exact(2).take(labels.len()).map(|stamp| [stamp[0], stamp[1]]));
        }
        let busy: u64 = runs.iter().map(|[begin, end]| end.saturating_sub(*begin)).sum();
        let idle: u64 = runs.windows(2).map(|pair| pair[1][0].saturating_sub(pair[0][1])).sum();
        let share = |name: &str, ticks: u64| KernelTime {
            kernel: name.to_string(),
            workgroups: [0; 3],
            dispatches: runs.len() as u64,
            seconds: ticks as f64 * period,
        };
        Ok(vec![share("busy", busy), share("idle", idle)])
    }

    /// Keeps the timestamps of what has been submitted.
    pub fn keep(&mut self, clock: Clock) {
        if !clock.labels.is_empty() {
            clock.read.request();
            self.waiting.push((clock.labels, clock.read));
        }
    }

    /// All that was timed, the longest together first; waits for the device.
    pub fn sums(self, gpu: &Gpu) -> Result<Vec<KernelTime>> {
        if !self.each {
            return self.shares(gpu);
        }
        let period = f64::from(gpu.queue.get_timestamp_period()) * 1e-9;
        let mut sums: BTreeMap<Label, (u64, f64)> = BTreeMap::new();
        for (labels, read) in self.waiting {
            let stamps: Vec<u64> = read.wait(gpu)?;
            for (label, stamp) in labels.into_iter().zip(stamps.chunks_exact(2)) {
                let sum = sums.entry(label).or_default();
                sum.0 += 1;
                sum.1 += stamp[1].saturating_sub(stamp[0]) as f64 * period;
            }
        }
        let time = |((kernel, grid), (dispatches, seconds)): (Label, (u64, f64))| KernelTime {
            kernel: kernel.to_string(),
            workgroups: grid,
            dispatches,
            seconds,
        };
        let mut times: Vec<KernelTime> = sums.into_iter().map(time).collect();
        times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(times)
    }
}

/// That this device has no clock.
pub fn no_clock(gpu: &Gpu) -> Error {
    Error::Device { reason: format!("{} does not time its kernels", gpu.description) }
}
