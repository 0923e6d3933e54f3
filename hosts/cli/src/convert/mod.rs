//! A Hugging Face model folder to GGUF.

mod config;
mod names;
mod safetensors;
#[cfg(test)]
mod tests;
mod vocab;

use crate::encode::{decode, encode};
use crate::mix::{self, row_chunks, Mix};
use crate::progress::Progress;
use config::Config;
use lean_engine::gguf::{Gguf, NewFile, TensorWriter, Writer};
use lean_engine::quant::DType;
use lean_engine::{CancelToken, Error, ModelPlan, Result};
use names::{Change, Target};
use safetensors::{Entry, Weights};
use std::path::Path;

/// Of a JSON file; Gemma's tokenizer.json has 33 MB.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// What was made.
pub struct Made {
    pub arch: &'static str,
    pub tensors: usize,
    pub tensor_bytes: u64,
}

/// A tensor on its way.
struct Item {
    target: Target,
    entry: Entry,
    from: DType,
    to: DType,
    /// GGUF's order.
    dims: Vec<u64>,
}

/// Converts a folder; the result has its name only once the engine has accepted it.
pub fn convert(dir: &Path, out: &Path, mix: Mix, cancel: &CancelToken) -> Result<Made> {
    if !dir.is_dir() {
        let reason = "is not a folder with config.json, tokenizer.json and safetensors files";
        return Err(Error::ModelIo { path: dir.display().to_string(), reason: reason.into() });
    }
    let json = read_json(&dir.join("config.json"))?;
    let mut weights = Weights::open(dir)?;
    let name = dir.canonicalize().ok().and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    let rows = |suffix: &str| {
        let found = weights.tensors.iter().find(|(name, _)| name.ends_with(suffix));
        let shape = found.and_then(|(_, entry)| entry.shape.first().copied());
        shape.ok_or_else(|| Error::bad_model(dir.display(), format_args!("there is no tensor *{suffix}")))
    };
    let vocab = rows("embed_tokens.weight")?;
    let ffn = rows("layers.0.mlp.up_proj.weight").or_else(|_| rows("layers.0.feed_forward.w3.weight"))?;
    let config = config::read(&json, &name.unwrap_or_default(), mix.file_type(), vocab, ffn)?;

    let mut writer = Writer::new();
    config.keys.write(&mut writer)?;
    vocab::write(&mut writer, dir, &json, config.family, vocab)?;
    let items = plan(&weights, &config, mix)?;
    let mut tensor_bytes = 0;
    for item in &items {
        tensor_bytes += writer.tensor(&item.target.name, &item.dims, item.to)?;
    }
    if let Some(factors) = &config.rope_factors {
        writer.tensor("rope_freqs.weight", &[factors.len() as u64], DType::F32)?;
    }
    let mut progress = Progress::new("converting", tensor_bytes);
    let mut file = writer.begin(NewFile::create(out)?, &out.display().to_string())?;
    for item in &items {
        tensor(&mut weights, item, &config, &mut file, &mut progress, cancel)?;
    }
    if let Some(factors) = &config.rope_factors {
        file.write(&encode(DType::F32, factors, "rope_freqs.weight")?)?;
    }
    let file = file.finish()?;
    ModelPlan::new(&Gguf::open(file.temporary(), false)?)?;
    file.commit()?;
    Ok(Made { arch: config.keys.arch, tensors: items.len(), tensor_bytes })
}

/// Every tensor with its name, type and shape, in a fixed order: the embedding, the layers, the rest.
fn plan(weights: &Weights, config: &Config, mix: Mix) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for (name, entry) in &weights.tensors {
        let Some(target) = names::target(config.family, name)? else { continue };
        if target.name == "output.weight" && config.tied {
            continue;
        }
        let what = || format!("tensor {}", name.escape_debug());
        let from = entry.dtype.ok_or_else(|| {
            Error::unsupported(
                what(),
                format_args!("its type is {}; F32, F16 and BF16 are read", entry.type_name),
            )
        })?;
        // A convolution has one input a channel, which GGUF leaves out.
        let mut dims: Vec<u64> = match entry.shape.as_slice() {
            [channels, 1, taps] => vec![*taps, *channels],
            shape => shape.iter().rev().copied().collect(),
        };
        if dims.is_empty() {
            dims.push(1);
        }
        items.push(Item { target, entry: entry.clone(), from, to: DType::F32, dims });
    }
    let rules = mix::Model::new(items.iter().map(|i| i.target.name.as_str()));
    for item in &mut items {
        item.to = rules.dtype(mix, &item.target.name, &item.dims).unwrap_or(DType::F32);
    }
    let place = |name: &str| match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((layer, _)) => (1, layer.parse::<u32>().unwrap_or(u32::MAX)),
        None if name == "token_embd.weight" => (0, 0),
        None => (2, 0),
    };
    items.sort_by_cached_key(|i| (place(&i.target.name), i.target.name.clone()));
    Ok(items)
}

fn tensor(
    weights: &mut Weights,
    item: &Item,
    config: &Config,
    file: &mut TensorWriter<NewFile>,
    progress: &mut Progress,
    cancel: &CancelToken,
) -> Result<()> {
    let name = &item.target.name;
    let columns = item.dims[0];
    let rows = item.dims[1..].iter().product::<u64>();
    let heads = match item.target.change {
        Change::PermuteQuery => Some(config.keys.heads),
        Change::PermuteKey => Some(config.kv_heads),
        _ => None,
    };
    // Heads are put in order within the whole tensor; vectors have one row.
    let chunks: Vec<_> = match heads {
        Some(_) => std::iter::once(0..rows).collect(),
        None => row_chunks(columns, rows).collect(),
    };
    let row_bytes = columns * item.from.block_bytes() as u64;
    let mut bytes = Vec::new();
    for chunk in chunks {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let wanted = (chunk.end - chunk.start) * row_bytes;
        bytes.clear();
        bytes
            .try_reserve_exact(wanted as usize)
            .map_err(|_| Error::OutOfMemory { wanted, what: name.clone() })?;
        bytes.resize(wanted as usize, 0);
        weights.read(&item.entry, chunk.start * row_bytes, &mut bytes)?;
        let mut values = decode(item.from, &bytes, name)?;
        if let Some(heads) = heads {
            let (total, columns) = if rows == 1 { (columns, 1) } else { (rows, columns) };
            if total % (2 * heads) != 0 {
                let reason = format!("{total} rows are not {heads} heads of an even size");
                return Err(Error::bad_model(format_args!("tensor {name}"), reason));
            }
            values = names::permute(&values, heads as usize, columns as usize);
        }
        if item.target.change == Change::PlusOne {
            values.iter_mut().for_each(|x| *x += 1.0);
        }
        let encoded = encode(item.to, &values, name)?;
        progress.add(encoded.len() as u64);
        file.write(&encoded)?;
    }
    Ok(())
}

/// A JSON file of the folder.
fn read_json(path: &Path) -> Result<serde_json::Value> {
    let io = |reason: String| Error::ModelIo { path: path.display().to_string(), reason };
    let bytes = std::fs::metadata(path).map_err(|e| io(e.to_string()))?.len();
    if bytes > MAX_JSON_BYTES {
        return Err(Error::bad_model(path.display(), format_args!("{bytes} bytes are too many for it")));
    }
    let text = std::fs::read(path).map_err(|e| io(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| Error::bad_model(path.display(), e))
}
