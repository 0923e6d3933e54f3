//! Loading a fixture and driving the backend.

use lean_engine::backend::gpu::{GpuBackend, GpuOptions};
use lean_engine::backend::{
    Backend, Batch, Input, Logits, SamplerParams, Selection, Slot, SlotOutput, StateId, Ticket, WeightSource,
};
use lean_engine::gguf::Gguf;
use lean_engine::model::plan::TensorSpec;
use lean_engine::{CancelToken, Error, Result};
use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

pub const LLAMA: &str = "llama-hd64-tied.s1.q4_1";
pub const LFM2: &str = "lfm2-hd64-tied.s1.q4_0";

/// A fixture file's stem as a path.
pub fn fixture(stem: &str, extension: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/fixtures/models/{stem}.{extension}"))
}

struct Weights(Gguf);

impl WeightSource for Weights {
    fn read(&mut self, spec: &TensorSpec) -> Result<Cow<'_, [u8]>> {
        self.0.read(&spec.name)
    }
}

/// Loads a fixture's model with options.
pub fn load_with(stem: &str, options: &GpuOptions) -> Result<GpuBackend> {
    let gguf = Gguf::open(&fixture(stem, "gguf"), false)?;
    let plan = lean_engine::model::plan(&gguf)?;
    GpuBackend::load(plan, &mut Weights(gguf), options, &mut |_, _| Ok(()))
}

/// Options that take any adapter; `LEAN_GPU_ADAPTER` picks one by a part of its name.
pub fn any_adapter() -> GpuOptions {
    GpuOptions { adapter: std::env::var("LEAN_GPU_ADAPTER").ok(), allow_software: true, ..Default::default() }
}

/// A fixture's model on the GPU, or `None`, said loudly, where there is no adapter.
pub fn load(stem: &str) -> Option<GpuBackend> {
    match load_with(stem, &any_adapter()) {
        Ok(backend) => Some(backend),
        Err(Error::Device { reason }) if reason.contains("no GPU adapter") && !required() => {
            static SKIPPED: AtomicU32 = AtomicU32::new(0);
            let n = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            // Past the test harness's capture, so that it is seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED GPU TEST {n}: {reason}");
            None
        }
        Err(error) => panic!("{stem}: {error}"),
    }
}

fn required() -> bool {
    std::env::var("LEAN_REQUIRE_GPU").is_ok_and(|v| v == "1")
}

/// A slot that nobody cancels.
pub fn slot(state: StateId, input: Input, logits: Logits) -> Slot {
    Slot { state, input, logits, cancel: CancelToken::new() }
}

/// Submits one slot.
pub fn submit(backend: &dyn Backend, state: StateId, input: Input, logits: Logits) -> Ticket {
    backend.submit(Batch { slots: vec![slot(state, input, logits)] }).unwrap()
}

/// Asks until a slot's result is there.
pub fn wait(backend: &dyn Backend, ticket: Ticket, slot: usize) -> Result<SlotOutput> {
    loop {
        match backend.poll(ticket, slot)? {
            Poll::Ready(output) => return Ok(output),
            Poll::Pending => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }
}

/// Runs tokens and reads the last logits.
pub fn run(backend: &dyn Backend, state: StateId, ids: &[u32]) -> Vec<f32> {
    let ticket = submit(backend, state, Input::Tokens(ids.to_vec()), Logits::Last { read: true });
    wait(backend, ticket, 0).unwrap().logits.unwrap()
}

/// Greedy without a mask.
pub fn greedy(params: &SamplerParams) -> Selection<'_> {
    Selection { params, history: &[], random: 0, mask: None }
}

/// `n` greedy tokens, the first of them selected from `ticket`; each pass is queued before the token that it
/// reads is known here. Returns the output of `ticket` too.
pub fn pipelined(
    backend: &dyn Backend,
    state: StateId,
    mut ticket: Ticket,
    n: usize,
) -> (Vec<u32>, SlotOutput) {
    let params = SamplerParams::default();
    backend.select(ticket, 0, greedy(&params)).unwrap();
    let mut outputs = Vec::new();
    while outputs.len() + 1 < n {
        let next = submit(backend, state, Input::Sampled(ticket, 0), Logits::Last { read: false });
        backend.select(next, 0, greedy(&params)).unwrap();
        outputs.push(wait(backend, ticket, 0).unwrap());
        ticket = next;
    }
    outputs.push(wait(backend, ticket, 0).unwrap());
    (outputs.iter().map(|o| o.token.unwrap()).collect(), outputs.remove(0))
}

/// The bits of logits, for comparisons that mean bit-identical.
pub fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Any ids within the tiny models' vocabulary.
pub fn ids(n: usize, seed: u32) -> Vec<u32> {
    let mut x = seed.wrapping_mul(2_654_435_761).max(1);
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            5 + x % 1000
        })
        .collect()
}
