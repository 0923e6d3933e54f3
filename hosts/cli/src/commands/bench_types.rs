//! `lean bench --types DIR`: what typed output costs, over a folder of JSON Schemas.

use crate::args::{self, BenchArgs};
use crate::{output, table};
use lean_engine::{Block, Error, Model, Request, Result, Session, SessionOptions, Type};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Tokens of a walk.
const WALK: usize = 256;
/// Further walks of a type, in which its masks are kept.
const KEPT_WALKS: u64 = 3;
const PROMPT: &str = "Answer with JSON.\n";

/// What was seen, in seconds and counts.
#[derive(Default)]
struct Seen {
    types: usize,
    refused: Vec<(String, String)>,
    /// From the text of a type to its first mask, with everything compiled on the way.
    first: Vec<f64>,
    masks: Vec<f64>,
    /// Where masks are kept, as they are when values are generated: over some values of each type.
    kept: Vec<f64>,
    walk_tokens: usize,
    walk_forced: usize,
    typed: Decode,
    plain: Decode,
}

/// Decoding with a model.
#[derive(Default)]
struct Decode {
    tokens: usize,
    forced: usize,
    saved: usize,
    passes: usize,
    seconds: f64,
}

pub fn run(model: &Model, dir: &Path, args: &BenchArgs) -> Result<ExitCode> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .map_err(|e| Error::io(dir, e))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    if files.is_empty() {
        return Err(Error::invalid("--types", format!("{} holds no .json", dir.display())));
    }
    files.sort();
    // What a model does once, whatever the type.
    model.matcher(&Type::expr("null")?)?;
    let mut session = model.session(SessionOptions::default())?;
    session.append(&[Block::text(PROMPT)])?;
    let mut seen = Seen::default();
    for (n, path) in files.iter().enumerate() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = args::read_text(path)?;
        let start = Instant::now();
        let first = Type::schema(&text).and_then(|ty| {
            let mut matcher = model.matcher(&ty)?.ok_or_else(|| Error::invalid(&name, "has no mask"))?;
            if matcher.forced()?.is_empty() {
                matcher.mask()?;
            }
            Ok(ty)
        });
        match first {
            Ok(ty) => {
                seen.first.push(start.elapsed().as_secs_f64());
                seen.types += 1;
                walk(model, &ty, n as u64, false, &mut seen)?;
                for again in 1..=KEPT_WALKS {
                    walk(model, &ty, n as u64 + (again << 32), true, &mut seen)?;
                }
                decode(&session, &ty, args.decode, &mut seen)?;
            }
            Err(e) => seen.refused.push((name, e.to_string())),
        }
    }
    report(seen, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Random tokens among those allowed, so that no model's habits spare the matcher anything.
fn walk(model: &Model, ty: &Type, seed: u64, keep: bool, seen: &mut Seen) -> Result<()> {
    let Some(mut matcher) = model.matcher(ty)? else { return Ok(()) };
    if keep {
        matcher.keep_masks(ty)?;
    }
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..WALK {
        for id in matcher.forced()? {
            matcher.consume(id)?;
            seen.walk_tokens += 1;
            seen.walk_forced += 1;
        }
        let start = Instant::now();
        let mask = matcher.mask()?;
        let into = if keep { &mut seen.kept } else { &mut seen.masks };
        into.push(start.elapsed().as_secs_f64());
        let allowed: Vec<u32> = (0..model.info().vocab_size as u32).filter(|&id| mask.allows(id)).collect();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = allowed[(random % allowed.len().max(1) as u64) as usize];
        if model.info().eos.contains(&id) {
            break;
        }
        matcher.consume(id)?;
        seen.walk_tokens += 1;
    }
    Ok(())
}

/// A value of the type and as much plain text, one after the other, so that both meet the same machine.
fn decode(session: &Session, ty: &Type, tokens: usize, seen: &mut Seen) -> Result<()> {
    let typed = measure(session, Request::new(ty.clone()).max_tokens(tokens), &mut seen.typed);
    match typed {
        Err(Error::BudgetTooSmall { needed }) => {
            measure(session, Request::new(ty.clone()).max_tokens(needed), &mut seen.typed)?;
        }
        other => other?,
    }
    measure(session, Request::new(Type::text()?).max_tokens(tokens), &mut seen.plain)
}

fn measure(session: &Session, request: Request, into: &mut Decode) -> Result<()> {
    let mut session = session.fork()?;
    let start = Instant::now();
    let out = session.generate(&request)?.finish()?;
    into.seconds += start.elapsed().as_secs_f64();
    into.tokens += out.tokens.len();
    into.forced += out.usage.forced_tokens;
    into.saved += out.usage.saved_passes;
    into.passes += out.usage.passes;
    Ok(())
}

impl Decode {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds.max(1e-9)
    }
    fn passes_per_second(&self) -> f64 {
        self.passes as f64 / self.seconds.max(1e-9)
    }
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len().max(1) as f64
}

fn report(mut seen: Seen, as_json: bool) -> Result<()> {
    seen.first.sort_by(f64::total_cmp);
    seen.masks.sort_by(f64::total_cmp);
    seen.kept.sort_by(f64::total_cmp);
    let us = |x: f64| x * 1e6;
    let walk_share = seen.walk_forced as f64 / seen.walk_tokens.max(1) as f64;
    let share = seen.typed.forced as f64 / seen.typed.tokens.max(1) as f64;
    let ratio = seen.typed.tokens_per_second() / seen.plain.tokens_per_second().max(1e-9);
    let per_pass = seen.typed.passes_per_second() / seen.plain.passes_per_second().max(1e-9);
    if as_json {
        let refused: Vec<_> = seen.refused.iter().map(|(n, r)| json!({ "type": n, "reason": r })).collect();
        let line = json!({
            "types": seen.types, "refused": refused,
            "first_mask_us": {
                "mean": us(mean(&seen.first)), "p50": us(quantile(&seen.first, 0.5)), "p99": us(quantile(&seen.first, 0.99)),
            },
            "mask_us": {
                "count": seen.masks.len(), "mean": us(mean(&seen.masks)), "p50": us(quantile(&seen.masks, 0.5)),
                "p99": us(quantile(&seen.masks, 0.99)), "p99_9": us(quantile(&seen.masks, 0.999)),
            },
            "kept_mask_us": {
                "count": seen.kept.len(), "mean": us(mean(&seen.kept)), "p50": us(quantile(&seen.kept, 0.5)),
                "p99": us(quantile(&seen.kept, 0.99)), "p99_9": us(quantile(&seen.kept, 0.999)),
            },
            "walk_forced_share": walk_share, "forced_share": share, "saved_passes": seen.typed.saved,
            "constrained_tokens_per_second": seen.typed.tokens_per_second(),
            "unconstrained_tokens_per_second": seen.plain.tokens_per_second(),
            "ratio": ratio, "ratio_per_pass": per_pass,
        });
        return output::line(line);
    }
    for (name, reason) in &seen.refused {
        output::line(format_args!("refused: {name}: {reason}"))?;
    }
    let row = |a: &str, b: String| vec![a.to_string(), b];
    let spread = |xs: &[f64]| {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| us(quantile(xs, q)));
        format!("mean {:.1}, p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1} us", us(mean(xs)))
    };
    table::print(&[
        row("measure", format!("{} types, {} refused", seen.types, seen.refused.len())),
        row("to first mask", spread(&seen.first)),
        row("mask, cold", spread(&seen.masks)),
        row("mask, kept", spread(&seen.kept)),
        row(
            "forced",
            format!("{:.0} % of random values, {:.0} % of the model's", walk_share * 100.0, share * 100.0),
        ),
        row("passes saved", format!("{} of {}", seen.typed.saved, seen.typed.saved + seen.typed.passes)),
        row(
            "constrained",
            format!(
                "{:.1} tokens/s, unconstrained {:.1}: {ratio:.2}x ({per_pass:.2}x a pass)",
                seen.typed.tokens_per_second(),
                seen.plain.tokens_per_second()
            ),
        ),
    ])
}
