//! The command line. Help teaches by example.

use crate::commands::{convert::ConvertArgs, quantize::QuantizeArgs, synth::SynthArgs};
use crate::lineage;
use crate::lora::LoraArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lean_engine::{BackendChoice, Error, KvType, Precision, Restore};
use std::io::Read;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  lean demo
  lean generate --model smollm2.gguf --chat --prompt \"Invent a user.\" \\
      --type '{\"id\": \"number.integer\", \"name\": \"string < 64\"}'
  echo \"Once upon a time\" | lean generate --model smollm2.gguf --max-tokens 64
  lean chat --model smollm2.gguf
  lean inspect smollm2.gguf
  lean convert ./Qwen3-0.6B qwen3-f16.gguf
  lean quantize qwen3-f16.gguf qwen3-q4_k_m.gguf --type q4_k_m

Exit status:
  0 done   1 lean verify found a difference   2 wrong usage   3 argument or type   4 model file
  5 checkpoint   6 memory, device, or a file that cannot be read or written   7 timeout
  70 a bug in lean   130 interrupted (Ctrl-C)";

/// Run language models that answer with values of the type you ask for.
#[derive(Parser)]
#[command(name = "lean", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Fetch a small model if need be and print a typed value from it
    Demo(DemoArgs),
    /// Generate a value of a type, or text
    Generate(GenerateArgs),
    /// Talk to a model
    Chat(ChatArgs),
    /// Print the JSON Schema of a type expression
    Type(TypeArgs),
    /// Look into a checkpoint file, or check that it continues exactly
    Checkpoint(crate::commands::checkpoint::CheckpointArgs),
    /// Show what is in a model file and the memory it needs
    Inspect(InspectArgs),
    /// Compare a model with a fixture made by transformers
    Verify(VerifyArgs),
    /// Measure prefill and decode speed, load time and peak memory
    Bench(BenchArgs),
    /// List the GPU adapters of this machine
    #[cfg(feature = "gpu")]
    Devices(crate::commands::devices::DevicesArgs),
    /// Make a GGUF of a Hugging Face model folder
    Convert(ConvertArgs),
    /// Fetch model files from the Hugging Face hub
    #[cfg(feature = "pull")]
    Pull(crate::commands::pull::PullArgs),
    /// Give the weights of a GGUF another type
    Quantize(QuantizeArgs),
    /// Make a model of random weights, for benchmarks
    Synth(SynthArgs),
}

/// Where the model comes from and where it runs.
#[derive(Args)]
pub struct ModelArgs {
    /// The GGUF file
    #[arg(short, long, env = "LEAN_MODEL", value_name = "FILE")]
    pub model: PathBuf,
    #[command(flatten)]
    pub device: DeviceArgs,
}

#[derive(Args, Clone)]
pub struct DeviceArgs {
    /// Where to run
    #[arg(long, value_enum, default_value_t = BackendArg::Auto)]
    pub backend: BackendArg,
    /// CPU threads; 0 is one a core
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
    pub threads: usize,
    /// Map the file instead of reading it (it must not be truncated meanwhile)
    #[arg(long)]
    pub mmap: bool,
    /// Use the portable CPU kernels, which give the same bits on every machine
    #[arg(long)]
    pub portable: bool,
    /// How keys and values are stored: f32, f24, f16 or q8_0 (docs/kv.md has their errors)
    #[arg(long, value_name = "TYPE", default_value_t = KvType::F32)]
    pub kv: KvType,
    /// How exactly it is computed: exact (within 1e-3 of float32), or fast, whose differences `lean verify` measures
    #[arg(long, default_value_t = Precision::Exact)]
    pub precision: Precision,
    /// The GPU: part of its name, its number in `lean devices`, high-performance or low-power; a software adapter, too
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BackendArg {
    /// A hardware GPU that can run the model, else the CPU
    Auto,
    /// CPU threads
    Cpu,
    /// A GPU through wgpu
    Gpu,
}

impl From<BackendArg> for BackendChoice {
    fn from(arg: BackendArg) -> Self {
        match arg {
            BackendArg::Auto => BackendChoice::Auto,
            BackendArg::Cpu => BackendChoice::Cpu,
            BackendArg::Gpu => BackendChoice::Gpu,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum RestoreArg {
    /// Bit for bit, or an error
    Exact,
    /// Take over the state of another backend
    Convert,
    /// Take the tokens and run them again
    Reprefill,
}

impl From<RestoreArg> for Restore {
    fn from(arg: RestoreArg) -> Self {
        match arg {
            RestoreArg::Exact => Restore::Exact,
            RestoreArg::Convert => Restore::Convert,
            RestoreArg::Reprefill => Restore::Reprefill,
        }
    }
}

/// The budget where none is asked for: text of a small model may never end by itself.
pub const DEFAULT_MAX_TOKENS: usize = 1024;

/// Budget and sampler.
#[derive(Args)]
pub struct SamplerArgs {
    /// Most tokens to generate; by default 1024, or what the context still holds
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<usize>,
    /// 0 is greedy
    #[arg(short, long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Sample among the N likeliest; 0 is off
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub top_k: u32,
    /// Sample among the likeliest that together reach P; 1 is off
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub top_p: f32,
    /// Drop tokens below P times the likeliest; 0 is off
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub min_p: f32,
    /// Make recent tokens less likely; 1 is off
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    pub repetition_penalty: f32,
    /// Same seed, same output
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
    pub seed: u64,
    /// End text before this string (may be repeated)
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
}

impl SamplerArgs {
    /// The request's options for a context with `room` tokens left.
    pub fn options(&self, room: usize) -> lean_engine::RequestOptions {
        lean_engine::RequestOptions {
            // The default budget gives way to a small context; one that was asked for is an error there.
            max_tokens: Some(self.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS.min(room.max(1)))),
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            stop: self.stop.clone(),
            ..Default::default()
        }
    }
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  lean generate -m smollm2.gguf --chat -p \"Invent a user.\" \\
      --type '{\"id\": \"number\", \"name\": \"string < 64\"}'
  lean generate -m smollm2.gguf --chat -p \"Is the sky blue?\" --type \"'yes' | 'no'\"
  lean generate -m smollm2.gguf --schema invoice.json < mail.txt
  lean generate -m smollm2.gguf -p \"A long story\" --save-checkpoint story.ckpt -n 32
  lean generate -m smollm2.gguf --checkpoint story.ckpt -p \" And then\" -n 32
  lean generate -m smollm2.gguf --lora my-adapter:0.8 -p \"Once upon a time\"";

#[derive(Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// The prompt; without it, standard input is read
    #[arg(short, long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Make the prompt the user's message in the model's chat format
    #[arg(long)]
    pub chat: bool,
    /// System message (implies --chat)
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// The type of the value; without it, plain text
    #[arg(long = "type", value_name = "EXPR", conflicts_with = "schema")]
    pub ty: Option<String>,
    /// A JSON Schema file instead of a type expression
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Continue from a checkpoint; without a prompt, also a value that was cut in the middle
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// How the checkpoint may be restored
    #[arg(long, value_enum, default_value_t = RestoreArg::Exact)]
    pub restore: RestoreArg,
    /// Save the session after the value
    #[arg(long, value_name = "FILE")]
    pub save_checkpoint: Option<PathBuf>,
    /// Compress the saved state (zstd)
    #[arg(long, requires = "save_checkpoint")]
    pub compress: bool,
    /// Save only what differs from --checkpoint; --parent is then needed to read the file
    #[arg(long, requires = "save_checkpoint", requires = "checkpoint")]
    pub delta: bool,
    #[arg(long = "parent", value_name = "FILE", requires = "checkpoint", help = lineage::PARENT)]
    pub parents: Vec<PathBuf>,
    /// Most tokens of context; the model's own length by default
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,
    /// Print one JSON object: value, text, finish, usage
    #[arg(long)]
    pub json: bool,
    /// A JSON file with an array of tools: the answer is text, or calls of these (implies --chat)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ty", "schema"])]
    pub tools: Option<PathBuf>,
    /// The tool that must be called; "required" is any
    #[arg(long, value_name = "NAME", requires = "tools")]
    pub tool: Option<String>,
    /// Say how sure the model was of each leaf, and of what else the type allowed there
    #[arg(long, requires = "json")]
    pub confidence: bool,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub sampler: SamplerArgs,
}

#[derive(Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// System message
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Most tokens of context; the oldest exchange is dropped when it is full
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,
    #[command(flatten)]
    pub lora: LoraArgs,
    #[command(flatten)]
    pub sampler: SamplerArgs,
}

#[derive(Args)]
pub struct DemoArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
}

#[derive(Args)]
#[command(after_help = "Example:\n  lean type '{\"id\": \"number.integer\", \"tags?\": \"string[] <= 5\"}'")]
pub struct TypeArgs {
    /// The type expression
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expr: String,
}

#[derive(Args)]
pub struct InspectArgs {
    /// The GGUF file
    #[arg(value_name = "FILE", env = "LEAN_MODEL", required_unless_present = "model")]
    pub file: Option<PathBuf>,
    /// The GGUF file, as the other commands take it
    #[arg(short, long, value_name = "FILE", hide = true)]
    pub model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  lean verify --model llama-hd64-tied.s1.q4_1.gguf --fixture llama-hd64-tied.s1.q4_1.json
  lean verify --dir tests/fixtures/models       every .gguf with the .json beside it
  lean verify --model llama.gguf --lora adapter --fixture adapter.json
  lean verify --dir tests/fixtures/models --kv f16     measures what a looser type costs";

#[derive(Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArgs {
    /// The GGUF file
    #[arg(short, long, value_name = "FILE", required_unless_present = "dir", requires = "fixture")]
    pub model: Option<PathBuf>,
    /// The fixture (format lean-ref-1)
    #[arg(short, long, value_name = "FILE", requires = "model")]
    pub fixture: Option<PathBuf>,
    /// A folder of models with fixtures of the same stem
    #[arg(long, value_name = "DIR", conflicts_with = "model")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub lora: LoraArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lean bench smollm2.gguf\n  lean bench smollm2.gguf --threads 1 --json")]
pub struct BenchArgs {
    /// The GGUF file
    #[arg(value_name = "FILE", env = "LEAN_MODEL", required_unless_present = "model")]
    pub file: Option<PathBuf>,
    /// The GGUF file, as the other commands take it
    #[arg(short, long, value_name = "FILE", hide = true)]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Tokens of the prefill
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub prefill: usize,
    /// Tokens of the decode
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub decode: usize,
    /// Tokens of context before another decode; 0 leaves it out
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub depth: usize,
    /// Tokens of the prefill that is cancelled in its middle; 0 leaves it out
    #[arg(long, default_value_t = 1500, value_name = "N")]
    pub cancel: usize,
    /// Tokens of the context that is checkpointed, saved and loaded; 0 leaves it out
    #[arg(long, default_value_t = 999, value_name = "N")]
    pub checkpoint: usize,
    /// Also decode so many branches of one context, together and one after the other
    #[arg(long, value_name = "N")]
    pub branches: Option<usize>,
    /// On a GPU: also time each kernel of the decode, and of the prefill
    #[arg(long)]
    pub kernels: bool,
    /// Repetitions; medians are printed
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: usize,
    /// Measure typed output instead, over the JSON Schemas (*.json) in a folder, --decode tokens each
    #[arg(long, value_name = "DIR")]
    pub types: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The model that was named in either of two ways; the parser demands one. What is typed as `--model` wins over the
/// environment, which fills the other.
pub fn named<'a>(file: &'a Option<PathBuf>, model: &'a Option<PathBuf>) -> Result<&'a Path, Error> {
    model.as_deref().or(file.as_deref()).ok_or_else(|| Error::invalid("FILE", "name a GGUF file"))
}

/// Bytes of a text that the user names: a type, tools, a prompt.
pub const MAX_TEXT: u64 = 64 << 20;

/// Reads a file that the user named, or the start of it that is already too much.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let file = std::fs::File::open(path).map_err(|e| Error::io(path, e))?;
    read_limited(file, &path.display().to_string(), MAX_TEXT)
}

/// Reads what may have no end.
pub fn read_limited(from: impl Read, name: &str, limit: u64) -> Result<String, Error> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).map_err(|e| Error::io(name, e))?;
    if bytes.len() as u64 > limit {
        return Err(Error::invalid(
            name,
            format!("it has more than {limit} bytes, the most that a text may have"),
        ));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::invalid(name, format!("it is no UTF-8 text: byte {at} begins no character"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let error = read_limited(std::io::repeat(0), "x", 1000).unwrap_err().to_string();
        assert!(error.contains('x') && error.contains("1000 bytes"), "{error}");
        assert_eq!(read_limited(&b"abc"[..], "x", 3).unwrap(), "abc");
        let error = read_limited(&b"ab\xff"[..], "x", 9).unwrap_err().to_string();
        assert!(error.contains("byte 2"), "{error}");
    }
}
