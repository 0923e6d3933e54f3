//! `lean synth`: a model of random weights, for benchmarks.

use crate::interrupt;
use crate::mix::Mix;
use crate::output;
use crate::synth::{self, Arch, Shape, Size};
use crate::table::megabytes;
use clap::Args;
use lean_engine::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  lean synth --arch llama --shape 8b --type q4_0 llama-8b.gguf
  lean synth --arch lfm2 --shape tiny --type f16 tiny.gguf
  lean bench -m llama-8b.gguf --prefill 128 --decode 16

The weights are random, so what such a model says is noise; its speed and memory are those of the real one.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SynthArgs {
    /// Where to write the model
    #[arg(value_name = "OUT.gguf")]
    pub out: PathBuf,
    /// The family
    #[arg(long, value_enum)]
    pub arch: Arch,
    /// The dimensions: those of a published model of about this size
    #[arg(long, value_enum)]
    pub shape: Size,
    /// Type of the weights; mixed as lean quantize does
    #[arg(long = "type", value_enum, default_value_t = Mix::Q4_0)]
    pub mix: Mix,
    /// Same seed, same bytes
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &SynthArgs) -> Result<ExitCode> {
    let start = Instant::now();
    let shape = Shape::new(args.arch, args.shape);
    let made = synth::write(&args.out, &shape, args.mix, args.seed, &interrupt::token())?;
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let line = serde_json::json!({
            "path": args.out.display().to_string(), "shape": made.name, "parameters": made.parameters,
            "tensor_bytes": made.tensor_bytes, "seconds": seconds,
        });
        output::line(line)?;
    } else {
        let (millions, size) = (made.parameters as f64 / 1e6, megabytes(made.tensor_bytes));
        output::line(format_args!(
            "{}: {} ({millions:.1} M parameters, {size}) in {seconds:.1} s",
            args.out.display(),
            made.name
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
