//! `lean checkpoint`: what is in a checkpoint file, and whether it continues exactly.

use crate::args::DeviceArgs;
use crate::lora::LoraArgs;
use crate::table::{self, megabytes};
use crate::{lineage, loading, output};
use clap::{Args, Subcommand};
use lean_engine::{files, Checkpoint, CheckpointFile, Error, Model, Restore, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  lean checkpoint inspect story.ckpt
  lean checkpoint verify story.ckpt                       every checksum, nothing else
  lean checkpoint verify story.ckpt -m smollm2.gguf       restores it, computes it again, compares all bits
  lean checkpoint verify story.ckpt -m smollm2.gguf --lora my-adapter     made with an adapter
  lean checkpoint verify child.ckpt --parent story.ckpt   a delta together with its parent
  lean checkpoint verify c.ckpt --parent a.ckpt --parent b.ckpt     a delta of b, which is a delta of a";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(Subcommand)]
enum CheckpointCommand {
    /// Show what a checkpoint file holds
    Inspect(InspectArgs),
    /// Check a checkpoint file and, with its model, that it continues bit for bit
    Verify(VerifyArgs),
}

#[derive(Args)]
struct InspectArgs {
    /// The checkpoint file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct VerifyArgs {
    /// The checkpoint file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[arg(long = "parent", value_name = "FILE", help = lineage::PARENT)]
    parents: Vec<PathBuf>,
    /// The GGUF file that it belongs to
    #[arg(short, long, env = "LEAN_MODEL", value_name = "FILE")]
    model: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    lora: LoraArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &CheckpointArgs) -> Result<ExitCode> {
    match &args.command {
        CheckpointCommand::Inspect(args) => inspect(args),
        CheckpointCommand::Verify(args) => verify(args),
    }
}

fn inspect(args: &InspectArgs) -> Result<ExitCode> {
    let file = read(&args.file)?;
    match args.json {
        true => output::line(json!(file))?,
        false => show(&args.file, &file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<CheckpointFile> {
    Checkpoint::inspect(&files::read(path, u64::MAX)?).map_err(|e| named(path, e))
}

/// Errors of the bytes do not know whose they are.
fn named(path: &Path, error: Error) -> Error {
    match error {
        Error::BadCheckpoint { what, reason } => {
            Error::BadCheckpoint { what: format!("{}: {what}", path.display()), reason }
        }
        other => other,
    }
}

fn show(path: &Path, file: &CheckpointFile) -> Result<()> {
    let info = &file.info;
    let size = megabytes(file.file_bytes);
    output::line(format_args!("{}: checkpoint version {}, {size}\n", path.display(), file.version))?;
    let row = |a: &str, b: String| vec![a.to_string(), b];
    let pending = info.tokens - info.filled;
    let mut rows = vec![
        row("what", "value".into()),
        row("model", format!("fingerprint {:016x}", info.fingerprint)),
        row("class", info.exactness_class.clone()),
        row("tokens", format!("{} ({pending} still to run), of {} at most", info.tokens, file.capacity)),
        row("inside a value", if info.in_value { "yes" } else { "no" }.into()),
        row("layers", format!("{} attention, {} convolution", file.attention_layers, file.window_layers)),
        row("state", format!("{}, pages of {} tokens", megabytes(info.state_bytes), file.page_tokens)),
        row(
            "stored",
            format!(
                "{}, {}",
                megabytes(file.stored_state_bytes),
                file.compression.as_deref().map_or("not compressed".into(), |c| format!("compressed by {c}")),
            ),
        ),
    ];
    if let Some(pages) = file.parent_pages {
        rows.push(row("delta", format!("its first {pages} pages are its parent's")));
    }
    table::print(&rows)
}

fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let file = read(&args.file)?;
    // Alone, a file's bytes are all that can be checked; a delta's too.
    let checkpoint = match args.model.is_some() || !args.parents.is_empty() {
        true => Some(lineage::load(&args.file, &args.parents)?),
        false => None,
    };
    let exact = match (&args.model, checkpoint) {
        (Some(model), Some(checkpoint)) => {
            let model = loading::load(model, &args.device)?;
            // Kept until the end: a model restores what was made with adapters while it has them.
            let _adapters = args.lora.load_used(&model, &checkpoint.info()?.adapters)?;
            Some(continues_exactly(&model, &checkpoint)?)
        }
        _ if !args.lora.adapters.is_empty() => {
            return Err(Error::invalid(
                "--lora",
                "it needs the model that it belongs to: name one with --model",
            ))
        }
        _ => None,
    };
    report(args, &file, exact)?;
    Ok(if exact == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the stored state and one computed anew from the tokens give the same next logits, bit for bit.
fn continues_exactly(model: &Model, checkpoint: &Checkpoint) -> Result<bool> {
    let info = checkpoint.info()?;
    // Where every token has run already, one more is needed to get logits.
    let more: &[u32] = if info.filled < info.tokens { &[] } else { &[0] };
    let logits = |policy| -> Result<Vec<u32>> {
        let mut session = model.restore(checkpoint, policy)?;
        Ok(session.forward(more)?.into_iter().map(f32::to_bits).collect())
    };
    Ok(logits(Restore::Exact)? == logits(Restore::Reprefill)?)
}

fn report(args: &VerifyArgs, file: &CheckpointFile, exact: Option<bool>) -> Result<()> {
    if args.json {
        let line = json!({ "file": args.file.display().to_string(), "intact": true, "bit_identical": exact, "checkpoint": file });
        return output::line(line);
    }
    let tokens = file.info.tokens;
    output::line(format_args!(
        "{}: intact, {tokens} tokens, {}",
        args.file.display(),
        megabytes(file.file_bytes)
    ))?;
    output::line(match exact {
        None => "not compared with a model: name one with --model",
        Some(true) => "continues bit for bit: the stored state and a new prefill give the same logits",
        Some(false) => "DIFFERS: the stored state and a new prefill give other logits",
    })
}
