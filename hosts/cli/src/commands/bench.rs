//! `lean bench`: prefill and decode speed, load time and peak memory.

use super::bench_checkpoint;
use super::bench_kernels;
use super::branches::Branches;
use super::divergence::Divergence;
use crate::args::{named, BenchArgs};
use crate::table::{self, megabytes};
use crate::{loading, output};
use lean_engine::backend::cpu::speed::Speed;
use lean_engine::{
    Block, CancelToken, Error, Model, ModelInfo, Precision, Request, Result, SessionOptions, Type,
};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Tokens of the prompt whose first answer ends the time from the start of the load to the first token.
const FIRST: usize = 8;

pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let start = Instant::now();
    let model = loading::load(named(&args.file, &args.model)?, &args.device)?;
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
    let first_token_seconds = {
        model.session(SessionOptions::default())?.forward(&ids(&model, FIRST.min(tokens)))?;
        start.elapsed().as_secs_f64()
    };
    // The same context runs again and again here; what is measured is running it.
    model.set_prefix_cache(0);
    let runs =
        (0..args.runs).map(|_| measure(&model, args.prefill, args.decode)).collect::<Result<Vec<_>>>()?;
    let prefill = median(runs.iter().map(|r| r.0).collect());
    let decode = median(runs.iter().map(|r| r.1).collect());
    let machine = match model.info().backend.as_str() {
        "cpu" => Some(Speed::measure(args.device.threads)?),
        _ => None,
    };
    let deep = match args.depth.saturating_add(args.decode) {
        n if args.depth > 0 && n <= model.info().context_length => {
            Some(measure(&model, args.depth, args.decode)?.1)
        }
        _ => None,
    };
    let many = args.branches.map(|n| Branches::measure(&model, args, n)).transpose()?;
    let device = per_token(&model, args)?;
    let kernels = args.kernels.then(|| bench_kernels::measure(&model, args)).transpose()?;
    let peak = peak_memory();
    let divergence = match args.device.precision {
        Precision::Exact => None,
        Precision::Fast => Some(Divergence::measure(&model, named(&args.file, &args.model)?, &args.device)?),
    };
    let cancel = cancel_seconds(&model, args)?;
    let checkpoint = match args.checkpoint {
        0 => None,
        n if n > model.info().context_length => None,
        n => Some(bench_checkpoint::measure(&model, n, args.runs)?),
    };
    let info = model.info();
    if args.json {
        let line = json!({
            "model": info.name, "file_bytes": info.file_bytes, "device": info.device,
            "exactness_class": info.exactness_class, "load_seconds": load_seconds,
            "first_token_seconds": first_token_seconds, "weight_bytes": info.weight_bytes,
            "prefill_tokens": args.prefill, "prefill_tokens_per_second": prefill,
            "decode_tokens": args.decode, "decode_tokens_per_second": decode,
            "depth": args.depth, "decode_tokens_per_second_at_depth": deep, "machine": machine,
            "peak_memory_bytes": peak, "runs": args.runs,
            "cancelled_prefill_tokens": args.cancel, "cancel_seconds_worst": cancel,
            "checkpoint": checkpoint,
            "dispatches_per_token": device.map(|d| d[0]), "submissions_per_token": device.map(|d| d[1]),
            "host_seconds_per_token": device.map(|d| d[2]),
            "kernels": kernels.as_ref().map(bench_kernels::Kernels::json),
            "divergence": divergence,
            "branches": many.as_ref().map(Branches::json),
        });
        output::line(line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = megabytes(info.file_bytes);
    output::line(format_args!("{} ({size}) on {}, {}", info.name, info.device, info.exactness_class))?;
    let row = |a: &str, b: String| vec![a.to_string(), b];
    let mut rows = vec![
        row("measure", format!("median of {}", args.runs)),
        row(
            &format!("prefill {}", args.prefill),
            format!("{prefill:.1} tokens/s{}", prefill_share(info, &machine, prefill)),
        ),
        row(
            &format!("decode {}", args.decode),
            format!("{decode:.1} tokens/s{}", decode_share(info, &machine, decode)),
        ),
        row("load", format!("{load_seconds:.2} s, {first_token_seconds:.2} s to the first token")),
        row("peak memory", peak.map_or("not known here".into(), megabytes)),
    ];
    if let Some(deep) = deep {
        let what = format!("decode {} at depth {}", args.decode, args.depth);
        rows.push(row(&what, format!("{deep:.1} tokens/s")));
    }
    if let Some(m) = &machine {
        let (read, multiply) = (m.read_bytes / 1e9, m.multiply_adds / 1e9);
        let measured = format!("reads {read:.1} GB/s, {multiply:.1} G float32 multiply-adds/s");
        rows.push(row(&format!("the machine, {} threads", m.threads), measured));
    }
    if let Some([dispatches, submissions, host]) = device {
        let each = format!(
            "{dispatches:.1} dispatches, {submissions:.2} submissions, {:.3} ms to prepare",
            host * 1e3
        );
        rows.push(row("a token of the decode", each));
    }
    rows.extend(kernels.iter().map(|k| row("kernels of a token", k.share(decode))));
    rows.extend(kernels.iter().map(|k| row("device idle in a decode", k.idle())));
    rows.extend(many.iter().flat_map(Branches::rows));
    if let Some(worst) = cancel {
        rows.push(row(
            &format!("cancel a prefill of {}", args.cancel),
            format!("{:.1} ms at worst", worst * 1e3),
        ));
    }
    rows.extend(checkpoint.iter().flat_map(|c| c.rows()));
    rows.extend(divergence.iter().map(|d| row("beside exact", d.text())));
    table::print(&rows)?;
    if let Some(kernels) = &kernels {
        output::line("")?;
        table::print(&kernels.rows())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of what the threads can read that decoding reads: all weights for every token.
fn decode_share(info: &ModelInfo, machine: &Option<Speed>, decode: f64) -> String {
    let share = |m: &Speed| 100.0 * decode * info.weight_bytes as f64 / m.read_bytes;
    machine.as_ref().map_or(String::new(), |m| format!(", {:.0} % of the read bandwidth", share(m)))
}

/// The part of the float32 multiply-adds a second that a prefill would need if it multiplied with every weight.
fn prefill_share(info: &ModelInfo, machine: &Option<Speed>, prefill: f64) -> String {
    let share = |m: &Speed| 100.0 * prefill * info.parameters as f64 / m.multiply_adds;
    machine.as_ref().map_or(String::new(), |m| {
        format!(", {:.0} % of the float32 multiply-adds, all weights counted", share(m))
    })
}

/// Tokens per second of one prefill and of the decode that follows it.
fn measure(model: &Model, prefill: usize, decode: usize) -> Result<(f64, f64)> {
    let ids = ids(model, prefill);
    let (last, context) = ids.split_last().ok_or_else(|| Error::invalid("--prefill", "at least 1"))?;
    let mut session = model.session(SessionOptions::default())?;
    let start = Instant::now();
    if !context.is_empty() {
        session.append(&[Block::Tokens(context.to_vec())])?;
    }
    let mut logits = session.forward(&[*last])?;
    let prefill = prefill as f64 / start.elapsed().as_secs_f64();
    if model.info().backend == "gpu" {
        // The device chooses; logits that travel to the host would be measured otherwise.
        let request = Request::new(Type::text()?).max_tokens(decode);
        let start = Instant::now();
        let tokens = session.generate(&request)?.finish()?.tokens.len();
        return Ok((prefill, tokens as f64 / start.elapsed().as_secs_f64()));
    }
    let start = Instant::now();
    for _ in 0..decode {
        logits = session.forward(&[argmax(&logits)])?;
    }
    Ok((prefill, decode as f64 / start.elapsed().as_secs_f64()))
}

/// Dispatches, submissions and seconds of the host's preparation, a token of a decode; `None` on the CPU.
fn per_token(model: &Model, args: &BenchArgs) -> Result<Option<[f64; 3]>> {
    if model.info().backend != "gpu" {
        return Ok(None);
    }
    let mut session = model.session(SessionOptions::default())?;
    session.append(&[Block::Tokens(ids(model, args.prefill))])?;
    let before = model.device_counters();
    let request = Request::new(Type::text()?).max_tokens(args.decode);
    let tokens = session.generate(&request)?.finish()?.tokens.len().max(1) as f64;
    let after = model.device_counters();
    let each = |after: u64, before: u64| (after - before) as f64 / tokens;
    Ok(Some([
        each(after.dispatches, before.dispatches),
        each(after.submissions, before.submissions),
        each(after.host_nanos, before.host_nanos) * 1e-9,
    ]))
}

/// The longest time from a cancellation to the return of the prefill that it stops, in seconds; each run cancels at
/// another moment. `None` where no such prefill was asked for, or the context is too small for it.
fn cancel_seconds(model: &Model, args: &BenchArgs) -> Result<Option<f64>> {
    if args.cancel < 1 || args.cancel > model.info().context_length {
        return Ok(None);
    }
    let context = [Block::Tokens(ids(model, args.cancel))];
    let mut worst = 0f64;
    for run in 0..args.runs.max(8) {
        let mut session = model.session(SessionOptions::default())?;
        let token = CancelToken::new();
        let from_elsewhere = token.clone();
        let delay = Duration::from_millis(20 + 37 * run as u64);
        let cancelled_at = std::thread::spawn(move || {
            std::thread::sleep(delay);
            from_elsewhere.cancel();
            Instant::now()
        });
        let result = session.append_with(&context, &token, |_, _| {});
        let end = Instant::now();
        let at =
            cancelled_at.join().map_err(|_| Error::invalid("--cancel", "the thread that cancels died"))?;
        // A prefill that was done before counts for nothing.
        if matches!(result, Err(Error::Cancelled)) {
            worst = worst.max(end.saturating_duration_since(at).as_secs_f64());
        }
    }
    Ok(Some(worst))
}

/// Any ids will do; the same ones every time, spread over the vocabulary.
pub(super) fn ids(model: &Model, count: usize) -> Vec<u32> {
    let vocab = model.info().vocab_size as u64;
    (0..count as u64).map(|i| ((i * 7919 + 13) % vocab) as u32).collect()
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

pub fn median(mut xs: Vec<f64>) -> f64 {
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
