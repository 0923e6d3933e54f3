//! `lean bench`: prefill and decode speed, load time and peak memory.

use crate::args::BenchArgs;
use crate::loading;
use crate::table::{self, megabytes};
use lean_engine::{Block, Error, Model, Result, SessionOptions};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let start = Instant::now();
    let model = loading::load(&args.model.model, &args.model.device)?;
    let load_seconds = start.elapsed().as_secs_f64();
    if let Some(dir) = &args.types {
        return super::bench_types::run(&model, dir, args);
    }
    let tokens = args.prefill.saturating_add(args.decode);
    if args.prefill < 1 || args.decode < 1 || args.runs < 1 || tokens > model.info().context_length {
        return Err(Error::invalid(
            "--prefill, --decode, --runs",
            format!("at least 1 each, and at most {} tokens together", model.info().context_length),
        ));
    }
    let runs = (0..args.runs).map(|_| measure(&model, args)).collect::<Result<Vec<_>>>()?;
    let prefill = median(runs.iter().map(|r| r.0).collect());
    let decode = median(runs.iter().map(|r| r.1).collect());
    let peak = peak_memory();
    let info = model.info();
    if args.json {
        let line = json!({
            "model": info.name, "file_bytes": info.file_bytes, "device": info.device,
            "exactness_class": info.exactness_class, "load_seconds": load_seconds,
            "prefill_tokens": args.prefill, "prefill_tokens_per_second": prefill,
            "decode_tokens": args.decode, "decode_tokens_per_second": decode,
            "peak_memory_bytes": peak, "runs": args.runs,
        });
        println!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} ({}) on {}, {}", info.name, megabytes(info.file_bytes), info.device, info.exactness_class);
    let row = |a: &str, b: String| vec![a.to_string(), b];
    table::print(&[
        row("measure", format!("median of {}", args.runs)),
        row(&format!("prefill {}", args.prefill), format!("{prefill:.1} tokens/s")),
        row(&format!("decode {}", args.decode), format!("{decode:.1} tokens/s")),
        row("load", format!("{load_seconds:.2} s")),
        row("peak memory", peak.map_or("not known here".into(), megabytes)),
    ]);
    Ok(ExitCode::SUCCESS)
}

/// Tokens per second of one prefill and of the decode that follows it.
fn measure(model: &Model, args: &BenchArgs) -> Result<(f64, f64)> {
    let vocab = model.info().vocab_size as u64;
    // Any ids will do; the same ones every time, spread over the vocabulary.
    let ids: Vec<u32> = (0..args.prefill as u64).map(|i| ((i * 7919 + 13) % vocab) as u32).collect();
    let (last, context) = ids.split_last().ok_or_else(|| Error::invalid("--prefill", "at least 1"))?;
    let mut session = model.session(SessionOptions::default())?;
    let start = Instant::now();
    if !context.is_empty() {
        session.append(&[Block::Tokens(context.to_vec())])?;
    }
    let mut logits = session.forward(&[*last])?;
    let prefill = args.prefill as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for _ in 0..args.decode {
        logits = session.forward(&[argmax(&logits)])?;
    }
    Ok((prefill, args.decode as f64 / start.elapsed().as_secs_f64()))
}

/// The id of the largest logit, the lowest among equals.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = id;
        }
    }
    best as u32
}

fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_by(f64::total_cmp);
    xs[xs.len() / 2]
}

/// The most memory the process has held, in bytes.
#[cfg(unix)]
fn peak_memory() -> Option<u64> {
    // SAFETY: `rusage` is plain old data, for which all zeros is valid; getrusage writes only into it.
    let (status, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_SELF, &mut usage), usage)
    };
    // Linux counts in KiB, macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    (status == 0).then_some(usage.ru_maxrss as u64 * unit)
}

#[cfg(not(unix))]
fn peak_memory() -> Option<u64> {
    None
}
