//! `lean bench --kernels`: where a GPU's time goes.

use super::bench::ids;
use crate::args::BenchArgs;
use lean_engine::{Block, Error, KernelTime, Model, Request, Result, SessionOptions, Type};
use serde_json::{json, Value};

/// Kernels of a prefill and of the decode behind it.
pub struct Kernels {
    prefill: Vec<KernelTime>,
    decode: Vec<KernelTime>,
    tokens: usize,
    /// Of the decode, by itself: seconds that the device was busy, and idle between its work.
    busy: f64,
    idle: f64,
}

/// Times a prefill and a decode of their own: timing slows both down.
pub fn measure(model: &Model, args: &BenchArgs) -> Result<Kernels> {
    let mut session = model.session(SessionOptions::default())?;
    model.time_kernels()?;
    session.append(&[Block::Tokens(ids(model, args.prefill))])?;
    let prefill = model.kernel_times()?;
    let request = Request::new(Type::text()?).max_tokens(args.decode);
    model.time_kernels()?;
    let tokens = session.generate(&request)?.finish()?.tokens.len();
    let decode = model.kernel_times()?;
    if tokens == 0 {
        return Err(Error::invalid("--kernels", "the model ended the text at once"));
    }
    model.time_device()?;
    session.generate(&request)?.finish()?;
    let shares = model.kernel_times()?;
    let of = |name: &str| shares.iter().filter(|t| t.kernel == name).map(|t| t.seconds).sum();
    Ok(Kernels { prefill, decode, tokens, busy: of("busy"), idle: of("idle") })
}

fn seconds(times: &[KernelTime]) -> f64 {
    times.iter().map(|t| t.seconds).sum()
}

impl Kernels {
    /// The kernels' part of the time of a token.
    pub fn share(&self, tokens_per_second: f64) -> String {
        let each = seconds(&self.decode) / self.tokens as f64;
        let part = 100.0 * each * tokens_per_second;
        format!("{:.3} ms of {:.3} ms, {part:.0} %", each * 1e3, 1e3 / tokens_per_second)
    }

    /// How long the device waits between its work.
    pub fn idle(&self) -> String {
        let all = (self.busy + self.idle).max(f64::MIN_POSITIVE);
        format!("{:.1} % of {:.1} ms", 100.0 * self.idle / all, 1e3 * all)
    }

    /// For people.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let head = ["kernel", "workgroups", "dispatches", "us each", "ms", "share"];
        let mut rows = vec![head.map(str::to_string).to_vec()];
        for (what, times) in [("decode", &self.decode), ("prefill", &self.prefill)] {
            let all = seconds(times);
            for t in times {
                let [x, y, z] = t.workgroups;
                rows.push(vec![
                    format!("{what}: {}", t.kernel),
                    format!("{x} x {y} x {z}"),
                    t.dispatches.to_string(),
                    format!("{:.1}", 1e6 * t.seconds / t.dispatches.max(1) as f64),
                    format!("{:.2}", t.seconds * 1e3),
                    format!("{:.1} %", 100.0 * t.seconds / all.max(f64::MIN_POSITIVE)),
                ]);
            }
        }
        rows
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let list = |times: &[KernelTime]| -> Vec<Value> {
            let of = |t: &KernelTime| {
                json!({
                    "kernel": t.kernel, "workgroups": t.workgroups, "dispatches": t.dispatches, "seconds": t.seconds,
                })
            };
            times.iter().map(of).collect()
        };
        json!({ "tokens": self.tokens, "busy_seconds": self.busy, "idle_seconds": self.idle, "decode": list(&self.decode), "prefill": list(&self.prefill) })
    }
}
