//! `lean quantize`: another type for the weights of a GGUF.

use crate::encode::{decode, encode};
use crate::interrupt;
use crate::mix::{self, row_chunks, Mix};
use crate::output;
use crate::paths::same_file;
use crate::progress::Progress;
use crate::table::megabytes;
use clap::Args;
use lean_engine::gguf::{Gguf, NewFile, TensorInfo, TensorWriter, Writer};
use lean_engine::quant::DType;
use lean_engine::{CancelToken, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  lean quantize model-f16.gguf model-q4_k_m.gguf --type q4_k_m
  lean quantize model-q8_0.gguf model-q4_0.gguf --type q4_0 --requantize

Types are mixed as llama.cpp does: vectors and norms stay as they are, the head gets Q6_K, and q4_k_m gives some layers
Q6_K; rows that are not whole blocks of a type get the next one that fits.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct QuantizeArgs {
    /// The model to read
    #[arg(value_name = "IN.gguf")]
    pub input: PathBuf,
    /// Where to write the result
    #[arg(value_name = "OUT.gguf")]
    pub out: PathBuf,
    /// Type of the weights
    #[arg(long = "type", value_enum)]
    pub mix: Mix,
    /// Quantise weights that are quantised already, which loses precision twice
    #[arg(long)]
    pub requantize: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &QuantizeArgs) -> Result<ExitCode> {
    refuse_same_file(&args.input, &args.out)?;
    let gguf = Gguf::open(&args.input, false)?;
    let made = quantize(&gguf, &args.out, args.mix, args.requantize, &interrupt::token())?;
    let bytes: u64 = made.values().map(|m| m.1).sum();
    if args.json {
        let types: serde_json::Map<_, _> =
            made.iter().map(|(name, (count, _))| (name.to_string(), (*count).into())).collect();
        let path = args.out.display().to_string();
        output::line(serde_json::json!({"path": path, "tensor_bytes": bytes, "tensors": types}))?;
    } else {
        let types: Vec<_> = made.iter().map(|(name, (count, _))| format!("{count} {name}")).collect();
        output::line(format_args!(
            "{}: {} of weights, tensors: {}",
            args.out.display(),
            megabytes(bytes),
            types.join(", ")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reading and replacing one file at once could only go wrong.
fn refuse_same_file(input: &Path, out: &Path) -> Result<()> {
    match same_file(input, out) {
        true => Err(Error::invalid("OUT.gguf", "is the input itself; name another file")),
        false => Ok(()),
    }
}

/// Number and bytes of the tensors of each type that were written.
type Made = BTreeMap<&'static str, (usize, u64)>;

fn quantize(gguf: &Gguf, out: &Path, mix: Mix, requantize: bool, cancel: &CancelToken) -> Result<Made> {
    let table = plan(gguf, mix, requantize)?;
    let mut writer = Writer::new();
    for key in gguf.metadata.pairs.keys().filter(|k| *k != "general.alignment") {
        writer.copy(gguf, key)?;
    }
    writer.set("general.file_type", mix.file_type())?;
    writer.set("general.quantization_version", 2u32)?;
    let mut made = Made::new();
    for (info, _, to) in &table {
        let bytes = writer.tensor(&info.name, &info.dims, *to)?;
        let entry = made.entry(to.name()).or_default();
        *entry = (entry.0 + 1, entry.1 + bytes);
    }
    let mut progress = Progress::new("quantising", table.iter().map(|t| t.0.bytes).sum());
    let mut file = writer.begin(NewFile::create(out)?, &out.display().to_string())?;
    for (info, from, to) in table {
        tensor(gguf, info, from, to, &mut file, &mut progress, cancel)?;
    }
    file.finish()?.commit()?;
    Ok(made)
}

/// Every tensor with the type that it has and the one that it gets.
fn plan(gguf: &Gguf, mix: Mix, requantize: bool) -> Result<Vec<(&TensorInfo, DType, DType)>> {
    if gguf.metadata.opt_u32("split.count")?.is_some_and(|n| n > 1) {
        return Err(Error::unsupported(
            "split.count",
            "the model is split over several files; join them first",
        ));
    }
    let rules = mix::Model::new(gguf.tensors.keys().map(String::as_str));
    let mut table = Vec::new();
    for info in gguf.tensors.values() {
        let what = || format!("tensor {}", info.name.escape_debug());
        let from = info.dtype.ok_or_else(|| {
            Error::unsupported(
                what(),
                format_args!("its type is {}, which lean cannot read", info.type_name()),
            )
        })?;
        let to = rules.dtype(mix, &info.name, &info.dims).unwrap_or(from);
        let plain = matches!(from, DType::F32 | DType::F16 | DType::BF16);
        if from != to && !plain && !requantize {
            let reason = format!(
                "{} is {from} already, and going to {to} would lose precision twice; start from F16 or BF16, or pass --requantize",
                what()
            );
            return Err(Error::invalid("IN.gguf", reason));
        }
        table.push((info, from, to));
    }
    Ok(table)
}

fn tensor(
    gguf: &Gguf,
    info: &TensorInfo,
    from: DType,
    to: DType,
    file: &mut TensorWriter<NewFile>,
    progress: &mut Progress,
    cancel: &CancelToken,
) -> Result<()> {
    let columns = info.dims[0];
    // Rows are whole blocks: the table's check has seen it.
    let row_bytes = columns / from.block_elems() as u64 * from.block_bytes() as u64;
    let mut bytes = Vec::new();
    for rows in row_chunks(columns, info.elements() / columns) {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        bytes.resize(((rows.end - rows.start) * row_bytes) as usize, 0);
        gguf.read_part(&info.name, rows.start * row_bytes, &mut bytes)?;
        match from == to {
            true => file.write(&bytes)?,
            false => file.write(&encode(to, &decode(from, &bytes, &info.name)?, &info.name)?)?,
        }
        progress.add(bytes.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{self, Arch, Shape, Size};

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("lean-quantize-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_model_is_quantised_tensor_by_tensor() {
        let dir = folder("whole");
        let (plain, small, smaller) = (dir.join("f16.gguf"), dir.join("q8_0.gguf"), dir.join("q4_k_m.gguf"));
        let cancel = CancelToken::new();
        synth::write(&plain, &Shape::new(Arch::Llama, Size::Tiny), Mix::F16, 1, &cancel).unwrap();
        let source = Gguf::open(&plain, false).unwrap();
        quantize(&source, &small, Mix::Q8_0, false, &cancel).unwrap();
        quantize(&source, &smaller, Mix::Q4_k_m, false, &cancel).unwrap();
        let result = Gguf::open(&smaller, false).unwrap();
        let types = |name: &str| result.tensor(name).unwrap().dtype.unwrap();
        assert_eq!(types("token_embd.weight"), DType::Q6_K);
        assert_eq!(types("blk.0.attn_v.weight"), DType::Q4_K);
        assert_eq!(types("blk.1.attn_v.weight"), DType::Q6_K);
        assert_eq!(types("blk.1.attn_norm.weight"), DType::F32);
        assert_eq!(result.metadata.u32("general.file_type").unwrap(), 15);
        assert_eq!(
            result.metadata.get("tokenizer.ggml.tokens"),
            source.metadata.get("tokenizer.ggml.tokens")
        );
        let values = |gguf: &Gguf, name: &str| {
            decode(gguf.tensor(name).unwrap().dtype.unwrap(), &gguf.read(name).unwrap(), name).unwrap()
        };
        for (name, bound) in [("blk.0.attn_v.weight", 0.1), ("blk.1.ffn_down.weight", 0.03)] {
            let (a, b) = (values(&source, name), values(&result, name));
            let squares = |x: Vec<f32>| x.iter().map(|x| x * x).sum::<f32>();
            let error = squares(a.iter().zip(&b).map(|(a, b)| a - b).collect()) / squares(a.clone());
            assert!(error.sqrt() < bound, "{name}: {}", error.sqrt());
        }

        let quantized = Gguf::open(&small, false).unwrap();
        let error = quantize(&quantized, &smaller, Mix::Q4_0, false, &cancel).unwrap_err();
        assert!(error.to_string().contains("--requantize"), "{error}");
        quantize(&quantized, &smaller, Mix::Q4_0, true, &cancel).unwrap();
        assert!(matches!(
            refuse_same_file(&small, &dir.join(".").join("q8_0.gguf")),
            Err(Error::InvalidArgument { .. })
        ));

        let cancelled = CancelToken::new();
        cancelled.cancel();
        let gone = dir.join("cancelled.gguf");
        assert_eq!(quantize(&source, &gone, Mix::Q4_0, false, &cancelled).unwrap_err(), Error::Cancelled);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 3, "a part was left behind");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_type_of_every_family_can_be_made_and_opened() {
        let dir = folder("all");
        let path = dir.join("model.gguf");
        for arch in [Arch::Llama, Arch::Qwen2, Arch::Qwen3, Arch::Lfm2, Arch::Gemma3] {
            for mix in [Mix::F32, Mix::Bf16, Mix::Q4_0, Mix::Q5_1, Mix::Q4_k_m, Mix::Q5_k_m, Mix::Q6_k] {
                synth::write(&path, &Shape::new(arch, Size::Tiny), mix, 1, &CancelToken::new()).unwrap();
                let gguf = Gguf::open(&path, false).unwrap();
                let plan = lean_engine::ModelPlan::new(&gguf).unwrap();
                assert_eq!(plan.architecture, arch.name(), "{mix:?}");
                lean_engine::tokenizer::Tokenizer::from_gguf(&gguf.metadata).unwrap();
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
