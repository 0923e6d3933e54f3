//! `lean convert`: a Hugging Face model folder to GGUF.

use crate::convert;
use crate::interrupt;
use crate::mix::Mix;
use crate::output;
use crate::table::megabytes;
use clap::{Args, ValueEnum};
use lean_engine::Result;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  lean convert ./SmolLM2-360M-Instruct smollm2-f16.gguf
  lean convert ./Qwen3-0.6B qwen3-bf16.gguf --type bf16
  lean quantize smollm2-f16.gguf smollm2-q4_k_m.gguf --type q4_k_m

The folder holds config.json, tokenizer.json and safetensors files, as a download from the hub does. Families: llama,
qwen2, qwen3, lfm2, gemma3 (text). The result is named and laid out as llama.cpp's converter does.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ConvertArgs {
    /// The model's folder
    #[arg(value_name = "HF-DIR")]
    pub dir: PathBuf,
    /// Where to write the model
    #[arg(value_name = "OUT.gguf")]
    pub out: PathBuf,
    /// Type of the weights; vectors and norms are always f32
    #[arg(long = "type", value_enum, default_value_t = ConvertType::F16)]
    pub ty: ConvertType,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
#[allow(non_camel_case_types)]
pub enum ConvertType {
    F16,
    Bf16,
    F32,
    Q8_0,
}

pub fn run(args: &ConvertArgs) -> Result<ExitCode> {
    let mix = match args.ty {
        ConvertType::F16 => Mix::F16,
        ConvertType::Bf16 => Mix::Bf16,
        ConvertType::F32 => Mix::F32,
        ConvertType::Q8_0 => Mix::Q8_0,
    };
    let made = convert::convert(&args.dir, &args.out, mix, &interrupt::token())?;
    let path = args.out.display();
    if args.json {
        let line = serde_json::json!({
            "path": path.to_string(), "architecture": made.arch, "tensors": made.tensors, "tensor_bytes": made.tensor_bytes,
        });
        output::line(line)?;
    } else {
        output::line(format_args!(
            "{path}: {}, {} tensors, {}",
            made.arch,
            made.tensors,
            megabytes(made.tensor_bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
