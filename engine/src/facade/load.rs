//! Opening a model: from a file, bytes or a reader to weights in a backend.

use super::core::Core;
use super::model::{Model, ModelInfo};
use crate::backend::{cpu, Backend, KvType, Precision, Progress, StateShape, WeightSource};
use crate::cancel::CancelToken;
use crate::chat::ChatTemplate;
use crate::context::Identity;
use crate::error::{Error, Result};
use crate::gguf::{Gguf, Value};
use crate::model::plan::{Plan, TensorSpec};
use crate::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// Where a model runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// A hardware GPU where there is one that can run this model, else CPU threads, else one thread. Decided by what the
    /// device can do, never by a timing run; [`ModelInfo::fallback`](super::ModelInfo::fallback) says why it is the CPU.
    #[default]
    Auto,
    /// CPU threads.
    Cpu,
    /// A GPU through wgpu.
    Gpu,
}

impl std::str::FromStr for BackendChoice {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        match s {
            "auto" => Ok(BackendChoice::Auto),
            "cpu" => Ok(BackendChoice::Cpu),
            "gpu" => Ok(BackendChoice::Gpu),
            other => Err(Error::invalid("backend", format!("{other:?} is not one of auto, cpu, gpu"))),
        }
    }
}

/// Called while weights load with bytes done and bytes in total.
pub type ProgressFn = Box<dyn FnMut(u64, u64) + Send>;

/// Choices made at load.
#[derive(Default)]
pub struct LoadOptions {
    /// Where the model runs.
    pub backend: BackendChoice,
    /// CPU threads; 0 is the number of cores the process may use.
    pub threads: usize,
    /// Use the portable CPU kernels, whose results are the same on every machine, wasm included.
    pub portable: bool,
    /// How keys and values are stored. Part of the exactness class; anything but `F32` and `F24` is less exact than
    /// the 1e-3 gate. Only the CPU has a choice.
    pub kv: KvType,
    /// How exactly it is computed. Part of the exactness class. On the CPU `Fast` stores keys and values in half precision
    /// where `kv` is the default.
    pub precision: Precision,
    /// Map the file instead of reading it. The caller promises that nobody truncates it meanwhile: the
    /// operating system would kill the process.
    pub mmap: bool,
    /// Part of a GPU adapter's name, its number in the list of devices, `high-performance` or `low-power`.
    pub adapter: Option<String>,
    /// Accept software GPU adapters.
    pub allow_software_gpu: bool,
    /// Bytes of state that the model keeps of earlier contexts, so that a session that begins alike does not
    /// compute its beginning again. `None` is [`LoadOptions::PREFIX_CACHE_BYTES`], 0 turns it off.
    pub prefix_cache: Option<u64>,
    /// Progress.
    pub progress: Option<ProgressFn>,
    /// Cancels the load between tensors.
    pub cancel: CancelToken,
}

impl LoadOptions {
    /// The default of [`LoadOptions::prefix_cache`]: some thousand tokens of a small model, little beside its
    /// weights.
    pub const PREFIX_CACHE_BYTES: u64 = 256 << 20;
}

/// What a model file asks for, known before any weight is read.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelPlan {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, or empty.
    pub name: String,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of weights, about what the CPU backend will hold.
    pub weight_bytes: u64,
    /// Bytes of state a token takes.
    pub state_bytes_per_token: u64,
    /// Bytes of state a session takes besides, whatever its length: windows of convolutions.
    pub state_bytes_fixed: u64,
    /// Positions that the model was made for.
    pub context_length: usize,
    /// Number of logits.
    pub vocab_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// [`ModelPlan::memory_bytes`] of the whole context.
    pub max_memory_bytes: u64,
}

/// Memory of a model and one session of `tokens` tokens. `state` is what a token takes, and a session besides.
pub(super) fn memory_bytes(weights: u64, state: (u64, u64), vocab: usize, tokens: usize) -> u64 {
    let page = crate::backend::PAGE_TOKENS as u64;
    let pages = (tokens as u64).div_ceil(page).saturating_mul(page).saturating_mul(state.0);
    weights.saturating_add(pages).saturating_add(state.1).saturating_add(vocab as u64 * 4)
}

impl ModelPlan {
    /// What an open file asks for; unsupported models are refused here already.
    pub fn new(gguf: &Gguf) -> Result<Self> {
        Ok(Self::of(gguf, &crate::model::plan(gguf)?))
    }

    /// Estimate of the memory that the model takes on the CPU with one session of `context` tokens: its weights, the
    /// session's state in whole pages, and a row of logits. Scratch space of a pass comes on top, a few MB for models
    /// of up to 3 B parameters, and what is kept of earlier contexts ([`LoadOptions::prefix_cache`]).
    pub fn memory_bytes(&self, context: usize) -> u64 {
        memory_bytes(self.weight_bytes, self.state(), self.vocab_size, context)
    }

    fn state(&self) -> (u64, u64) {
        (self.state_bytes_per_token, self.state_bytes_fixed)
    }

    /// The same for state of another shape.
    fn with_shape(self, shape: &StateShape) -> Self {
        ModelPlan {
            state_bytes_per_token: token_bytes(shape),
            state_bytes_fixed: (shape.window_elems * 4) as u64,
            ..self
        }
    }

    fn of(gguf: &Gguf, plan: &Plan) -> Self {
        let asked = ModelPlan {
            architecture: text(gguf, "general.architecture"),
            name: text(gguf, "general.name"),
            parameters: plan.tensors.iter().map(|t| (t.rows * t.cols) as u64).sum(),
            file_bytes: gguf.file_bytes,
            weight_bytes: plan.tensors.iter().map(TensorSpec::bytes).sum(),
            state_bytes_per_token: 0,
            state_bytes_fixed: 0,
            context_length: plan.context_length,
            vocab_size: plan.vocab,
            layers: plan.layers.len(),
            max_memory_bytes: 0,
        };
        let asked = asked.with_shape(&StateShape::new(plan));
        ModelPlan { max_memory_bytes: asked.memory_bytes(asked.context_length), ..asked }
    }
}

/// Bytes of state that a token takes.
fn token_bytes(shape: &StateShape) -> u64 {
    (shape.page_elems() * 4 / crate::backend::PAGE_TOKENS) as u64
}

fn text(gguf: &Gguf, key: &str) -> String {
    match gguf.metadata.pairs.get(key) {
        Some(Value::String(s)) => s.clone(),
        _ => String::new(),
    }
}

/// Gives a backend one tensor at a time.
struct GgufWeights<'a>(&'a mut Gguf);

impl WeightSource for GgufWeights<'_> {
    fn read(&mut self, spec: &TensorSpec) -> Result<Cow<'_, [u8]>> {
        self.0.read(&spec.name)
    }
}

impl Model {
    /// Loads a GGUF file.
    pub fn load(path: impl AsRef<Path>, options: LoadOptions) -> Result<Self> {
        Self::from_gguf(Gguf::open(path.as_ref(), options.mmap)?, options)
    }

    /// Loads from bytes in memory.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>, options: LoadOptions) -> Result<Self> {
        Self::from_gguf(Gguf::from_bytes(bytes.into())?, options)
    }

    /// Loads from any reader; one tensor is read at a time.
    pub fn from_reader(
        reader: impl std::io::Read + std::io::Seek + Send + 'static,
        options: LoadOptions,
    ) -> Result<Self> {
        Self::from_gguf(Gguf::from_reader(Box::new(reader))?, options)
    }

    /// What a file asks for, without reading its weights.
    pub fn plan(path: impl AsRef<Path>) -> Result<ModelPlan> {
        ModelPlan::new(&Gguf::open(path.as_ref(), false)?)
    }

    /// Loads an open file.
    pub fn from_gguf(gguf: Gguf, mut options: LoadOptions) -> Result<Self> {
        let mut callback = options.progress.take();
        Self::from_gguf_with(gguf, options, &mut |done, total| {
            if let Some(callback) = &mut callback {
                callback(done, total);
            }
            Ok(())
        })
    }

    /// The same with progress for a callback that is borrowed, whose error ends the load;
    /// [`LoadOptions::progress`] is not called.
    pub fn from_gguf_with(
        mut gguf: Gguf,
        options: LoadOptions,
        on_progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Self> {
        options.cancel.check()?;
        let plan = crate::model::plan(&gguf)?;
        let tokenizer = Arc::new(Tokenizer::from_gguf(&gguf.metadata)?);
        if tokenizer.vocab_size() > plan.vocab {
            return Err(Error::bad_model(
                "tokenizer.ggml.tokens",
                format!("{} tokens, but the embedding has {} rows", tokenizer.vocab_size(), plan.vocab),
            ));
        }
        let template = chat_template(&gguf, &tokenizer);
        let fingerprint = gguf.fingerprint()?;
        let asked = ModelPlan::of(&gguf, &plan);
        // From here on only tensors are read; the metadata holds a second copy of the vocabulary.
        gguf.metadata = Default::default();
        let cancel = options.cancel.clone();
        let mut progress = |done: u64, total: u64| {
            on_progress(done, total)?;
            cancel.check()
        };
        let targets = crate::model::targets(&plan);
        let (backend, fallback) = load_backend(plan, &mut GgufWeights(&mut gguf), &options, &mut progress)?;
        let asked = asked.with_shape(backend.shape());
        let mut info = ModelInfo::new(asked, &backend.info(), fingerprint, &tokenizer, template.is_some());
        info.fallback = fallback;
        let identity = Identity {
            fingerprint,
            exactness_class: backend.info().exactness_class,
            shape: backend.shape().clone(),
            adapters: Vec::new(),
        };
        let prefix_cache = options.prefix_cache.unwrap_or(LoadOptions::PREFIX_CACHE_BYTES);
        Ok(Model(Arc::new(Core::new(info, identity, tokenizer, template, backend, targets, prefix_cache))))
    }
}

fn chat_template(gguf: &Gguf, tokenizer: &Tokenizer) -> Option<Result<ChatTemplate>> {
    let source = match gguf.metadata.pairs.get("tokenizer.chat_template") {
        Some(Value::String(source)) => source,
        _ => return None,
    };
    let name = |id: Option<u32>| {
        id.map(|id| String::from_utf8_lossy(tokenizer.bytes(id)).into_owned()).unwrap_or_default()
    };
    Some(ChatTemplate::new(source, &name(tokenizer.bos()), &name(tokenizer.eos_ids().first().copied())))
}

/// A backend, and why it is the CPU where a GPU was to be preferred.
type Chosen = (Arc<dyn Backend>, Option<String>);

fn load_backend(
    plan: Plan,
    weights: &mut dyn WeightSource,
    options: &LoadOptions,
    progress: Progress<'_>,
) -> Result<Chosen> {
    match options.backend {
        BackendChoice::Cpu => Ok((load_cpu(plan, weights, options, progress)?, None)),
        BackendChoice::Gpu if options.kv != KvType::F32 => Err(Error::Device {
            reason: format!("the gpu backend stores keys and values as f32, not {}; use the CPU", options.kv),
        }),
        BackendChoice::Gpu => Ok((load_gpu(plan, weights, options, progress)?, None)),
        BackendChoice::Auto if options.portable || options.kv != KvType::F32 => {
            let reason = "portable kernels and types of keys and values other than f32 are the CPU's";
            Ok((load_cpu(plan, weights, options, progress)?, Some(reason.into())))
        }
        BackendChoice::Auto => match load_gpu(plan.clone(), weights, options, progress) {
            Ok(gpu) => Ok((gpu, None)),
            Err(error @ (Error::Device { .. } | Error::OutOfMemory { .. } | Error::DeviceLost { .. })) => {
                Ok((load_cpu(plan, weights, options, progress)?, Some(error.to_string())))
            }
            Err(error) => Err(error),
        },
    }
}

fn load_cpu(
    plan: Plan,
    weights: &mut dyn WeightSource,
    options: &LoadOptions,
    progress: Progress<'_>,
) -> Result<Arc<dyn Backend>> {
    let &LoadOptions { threads, portable, kv, precision, .. } = options;
    let cpu = cpu::CpuOptions { threads, portable, kv, precision };
    Ok(Arc::new(cpu::CpuBackend::load(plan, weights, &cpu, progress)?))
}

#[cfg(feature = "gpu")]
fn load_gpu(
    plan: Plan,
    weights: &mut dyn WeightSource,
    options: &LoadOptions,
    progress: Progress<'_>,
) -> Result<Arc<dyn Backend>> {
    use crate::backend::gpu;
    let gpu = gpu::GpuOptions {
        adapter: options.adapter.clone(),
        allow_software: options.allow_software_gpu,
        precision: options.precision,
        ..Default::default()
    };
    Ok(Arc::new(gpu::GpuBackend::load(plan, weights, &gpu, progress)?))
}

#[cfg(not(feature = "gpu"))]
fn load_gpu(
    _plan: Plan,
    _weights: &mut dyn WeightSource,
    _options: &LoadOptions,
    _progress: Progress<'_>,
) -> Result<Arc<dyn Backend>> {
    Err(Error::Device { reason: "this build has no GPU backend; use the CPU".into() })
}
