//! An open device: buffers and pipelines whose failures are typed errors.

use super::times::Times;
use super::{adapter, cache, pair, GpuOptions};
use crate::backend::Precision;
use crate::error::{Error, Result};
use lean_shaders::{Binding, Kernel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A compiled variant of a kernel.
#[derive(Debug)]
pub struct Pipeline {
    /// The program.
    pub program: wgpu::ComputePipeline,
    /// Of bind group 0.
    pub layout: wgpu::BindGroupLayout,
    /// Where it came from.
    pub kernel: &'static Kernel,
}

/// What products of many tokens are taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiles {
    /// Float32.
    Floats,
    /// Three products of matrices of 16-bit floats by a subgroup: as exact.
    Split,
    /// One such product: not exact.
    Cooperative,
    /// 16-bit floats: not exact.
    Halves,
}

/// A device and its queue.
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// Its only queue.
    pub queue: wgpu::Queue,
    /// Limits the device was opened with.
    pub limits: wgpu::Limits,
    /// Kernels with subgroup operations run.
    pub subgroups: bool,
    /// Invocations of a subgroup, where products of bytes are worth it: eight of them at least have to be together,
    /// and software multiplies floats as fast.
    pub byte_subgroup: Option<usize>,
    /// Of products with many tokens.
    pub tiles: Tiles,
    /// Kernels can be timed.
    pub timestamps: bool,
    /// Adapter's name, for people.
    pub description: String,
    /// The largest storage binding to use, in bytes; a multiple of 4.
    pub max_binding: u64,
    /// Compiled pipelines of earlier processes.
    pub kept: cache::Kept,
    /// Times of kernels, while somebody asks for them.
    times: Mutex<Option<Times>>,
    /// The first error that no call was there to return. Every later call returns it.
    fault: Arc<Mutex<Option<Error>>>,
}

impl Gpu {
    /// Opens the adapter that the options ask for, with all the buffer sizes it offers.
    pub fn open(options: &GpuOptions) -> Result<Self> {
        pair::block_on(Self::open_async(options))?
    }

    async fn open_async(options: &GpuOptions) -> Result<Self> {
        let adapter = adapter::choose(options).await?;
        let limits = adapter.limits();
        let mut features = adapter.features() & (wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY);
        if options.no_subgroups {
            features.remove(wgpu::Features::SUBGROUP);
        }
        let description = adapter::describe(&adapter);
        let tiles = tiles(&adapter, features, options.precision).ok_or_else(|| Error::Device {
            reason: format!("{description} has no floats of 16 bits, which precision fast is made of"),
        })?;
        let cooperative = matches!(tiles, Tiles::Split | Tiles::Cooperative);
        features.set(wgpu::Features::SHADER_F16, tiles != Tiles::Floats);
        features.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, cooperative);
        features |= adapter.features() & wgpu::Features::PIPELINE_CACHE;
        let experimental_features = match cooperative {
            // SAFETY: what is experimental is that wgpu may miss a misuse. The kernels that use such a feature, those of
            // `common/cooperative.wgsl`, keep the rules themselves: every matrix is read and written by whole
            // subgroups in uniform control flow, inside of the workgroup's arrays.
            true => unsafe { wgpu::ExperimentalFeatures::enabled() },
            false => wgpu::ExperimentalFeatures::disabled(),
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("lean"),
            required_features: features,
            experimental_features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        let (device, queue) = adapter
            .request_device(&descriptor)
            .await
            .map_err(|e| Error::Device { reason: format!("{description} cannot be opened: {e}") })?;
        let offered = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let max_binding = options.max_binding.map_or(offered, |lower| lower.min(offered)) / 4 * 4;
        let fault = watch(&device);
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        let info = adapter.get_info();
        let hardware = info.device_type != wgpu::DeviceType::Cpu;
        let fits =
            subgroups && info.subgroup_min_size >= 8 && limits.max_compute_invocations_per_workgroup >= 512;
        let byte_subgroup =
            (fits && options.bytes.unwrap_or(hardware)).then_some(info.subgroup_max_size as usize);
        let kept = cache::Kept::open(&device, &info);
        let timestamps = features.contains(wgpu::Features::TIMESTAMP_QUERY);
        let times = Mutex::new(None);
        Ok(Gpu {
            device,
            queue,
            limits,
            subgroups,
            byte_subgroup,
            tiles,
            timestamps,
            description,
            max_binding,
            kept,
            times,
            fault,
        })
    }

    /// Times of kernels; `None` while nobody asks for them.
    pub fn times(&self) -> MutexGuard<'_, Option<Times>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error that made the device unusable, if there was one.
    pub fn check(&self) -> Result<()> {
        match &*self.fault.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// A buffer of at least `bytes`, zeroed. `what` names it in errors.
    pub fn buffer(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        self.check()?;
        let size = bytes.max(4).next_multiple_of(4);
        let limit = if usage.contains(wgpu::BufferUsages::STORAGE) {
            self.max_binding
        } else {
            self.limits.max_buffer_size
        };
        if size > limit {
            return Err(Error::OutOfMemory {
                wanted: size,
                what: format!("{what}; {} holds at most {limit} bytes in one buffer", self.description),
            });
        }
        let descriptor = wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
        scoped(&self.device, size, what, || self.device.create_buffer(&descriptor))
    }

    /// A storage buffer that can be filled and copied.
    pub fn storage(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        use wgpu::BufferUsages as U;
        self.buffer(what, bytes, U::STORAGE | U::COPY_DST | U::COPY_SRC)
    }

    /// Compiles a kernel with constants.
    pub fn pipeline(&self, kernel: &'static Kernel, constants: &[(&str, &str)]) -> Result<Arc<Pipeline>> {
        self.check()?;
        let source = kernel.source(constants).map_err(|reason| Error::Device { reason })?;
        scoped(&self.device, 0, kernel.name, || Arc::new(self.compile(kernel, source)))
    }

    fn compile(&self, kernel: &'static Kernel, source: String) -> Pipeline {
        let entries: Vec<_> = kernel.bindings.iter().zip(0..).map(|(b, at)| layout_entry(at, *b)).collect();
        let label = Some(kernel.name);
        let layout = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
        let whole = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let source = wgpu::ShaderSource::Wgsl(source.into());
        // The web's shaders are checked by the browser in any case.
        let checks = wgpu::ShaderRuntimeChecks::unchecked();
        let descriptor = wgpu::ShaderModuleDescriptor { label, source };
        // SAFETY: the kernels of lean-shaders are the only source there is. Each of their loops counts up to a bound,
        // and their indices follow from parameters and facts that `forward` and `submit` make: rows, tokens and
        // groups within the buffers that are bound with them, page numbers of the pool's entries, ids checked
        // against the vocabulary (the device's own choices are cut to it in `embed`). Whoever adds a kernel keeps
        // it so.
        let module = unsafe { self.device.create_shader_module_trusted(descriptor, checks) };
        let program = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&whole),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Every kernel writes its workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: self.kept.cache(),
        });
        Pipeline { program, layout, kernel }
    }
}

/// The invocations of a subgroup that `common/cooperative.wgsl` is written for, and its workgroup memory.
const COOPERATIVE_LANES: u32 = 32;
const COOPERATIVE_MEMORY: u32 = 48 << 10;

/// The best that an adapter opened with `features` has for products with many tokens.
fn tiles(adapter: &wgpu::Adapter, features: wgpu::Features, precision: Precision) -> Option<Tiles> {
    use wgpu::CooperativeScalarType as Scalar;
    let (has, info) = (adapter.features(), adapter.get_info());
    let lanes = [info.subgroup_min_size, info.subgroup_max_size] == [COOPERATIVE_LANES; 2];
    let sizes = || {
        adapter.cooperative_matrix_properties().into_iter().any(|p| {
            [p.m_size, p.n_size, p.k_size] == [16; 3] && p.ab_type == Scalar::F16 && p.cr_type == Scalar::F32
        })
    };
    let halves = has.contains(wgpu::Features::SHADER_F16);
    let cooperative = halves
        && has.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && features.contains(wgpu::Features::SUBGROUP)
        && adapter.limits().max_compute_workgroup_storage_size >= COOPERATIVE_MEMORY
        && lanes
        && sizes();
    match precision {
        Precision::Exact if cooperative => Some(Tiles::Split),
        Precision::Exact => Some(Tiles::Floats),
        Precision::Fast if cooperative => Some(Tiles::Cooperative),
        Precision::Fast => halves.then_some(Tiles::Halves),
    }
}

/// Runs `work` and turns what the device refuses meanwhile into an error.
pub fn scoped<T>(gpu: &wgpu::Device, wanted: u64, what: &str, work: impl FnOnce() -> T) -> Result<T> {
    let internal = gpu.push_error_scope(wgpu::ErrorFilter::Internal);
    let validation = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
    let memory = gpu.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let value = work();
    // Scopes close in the reverse order of their opening, all of them before the first error returns.
    let errors =
        [pair::block_on(memory.pop())?, pair::block_on(validation.pop())?, pair::block_on(internal.pop())?];
    match errors.into_iter().flatten().next() {
        Some(error) => Err(typed(&error, wanted, what)),
        None => Ok(value),
    }
}

fn layout_entry(binding: u32, kind: Binding) -> wgpu::BindGroupLayoutEntry {
    let storage = |read_only| wgpu::BindingType::Buffer {
        ty: wgpu::BufferBindingType::Storage { read_only },
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let ty = match kind {
        Binding::Uniform { bytes } => wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Uniform,
            has_dynamic_offset: true,
            min_binding_size: wgpu::BufferSize::new(bytes),
        },
        Binding::Read => storage(true),
        Binding::ReadWrite => storage(false),
    };
    wgpu::BindGroupLayoutEntry { binding, visibility: wgpu::ShaderStages::COMPUTE, ty, count: None }
}

/// Keeps the first error that reaches no scope, and the loss of the device.
fn watch(device: &wgpu::Device) -> Arc<Mutex<Option<Error>>> {
    let fault = Arc::new(Mutex::new(None));
    let keep = |fault: &Mutex<Option<Error>>, error| {
        fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        pair::heard();
    };
    let seen = fault.clone();
    device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| keep(&seen, typed(&e, 0, "GPU work"))));
    let seen = fault.clone();
    device.set_device_lost_callback(move |reason, text| {
        let unasked = reason != wgpu::DeviceLostReason::Destroyed;
        let reason = format!("{reason:?}: {text}");
        // A loss explains the errors that it caused.
        let error = Error::DeviceLost { reason: reason.clone() };
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        if unasked {
            pair::lost(&reason);
        }
    });
    fault
}

/// The engine's error for one of wgpu's.
pub fn typed(error: &wgpu::Error, wanted: u64, what: &str) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => Error::OutOfMemory { wanted, what: what.to_string() },
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Error::Device { reason: format!("{what}: {description}") }
        }
    }
}
