//! Random models of real dimensions.

mod fill;
mod shapes;
mod tokenizer;

pub use shapes::{Arch, Shape, Size};

use crate::keys::{llama3_factors, Keys};
use crate::mix::{self, Mix};
use crate::progress::Progress;
use fill::{Pool, Random};
use lean_engine::gguf::{NewFile, TensorWriter, Writer};
use lean_engine::quant::DType;
use lean_engine::{CancelToken, Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// What was made.
pub struct Made {
    pub name: &'static str,
    pub parameters: u64,
    pub tensor_bytes: u64,
}

/// Writes a model; the same bytes for the same arguments on every machine.
pub fn write(path: &Path, shape: &Shape, mix: Mix, seed: u64, cancel: &CancelToken) -> Result<Made> {
    let tensors = shape.tensors();
    let rules = mix::Model::new(tensors.iter().map(|t| t.0.as_str()));
    let mut writer = Writer::new();
    keys(shape, mix).write(&mut writer)?;
    tokenizer::write(&mut writer, shape.arch, shape.vocab)?;
    let mut table = Vec::new();
    for (name, dims) in &tensors {
        let dtype = rules.dtype(mix, name, dims).unwrap_or(DType::F32);
        table.push((name, dims, dtype, writer.tensor(name, dims, dtype)?));
    }
    let tensor_bytes = table.iter().map(|t| t.3).sum();
    let mut progress = Progress::new("writing", tensor_bytes);
    let mut out = writer.begin(NewFile::create(path)?, &path.display().to_string())?;
    let mut pools = HashMap::new();
    for (i, (name, dims, dtype, bytes)) in table.into_iter().enumerate() {
        let seed = Random(seed ^ (i as u64) << 40).next();
        match small(shape, name, dims, &mut Random(seed)) {
            Some(values) => write_floats(&mut out, &values)?,
            None => {
                // Keeps the size of what flows through a matrix.
                let deviation = 1.0 / (dims[0] as f32).sqrt();
                let pool = match pools.entry((dtype, dims[0])) {
                    std::collections::hash_map::Entry::Occupied(pool) => pool.into_mut(),
                    std::collections::hash_map::Entry::Vacant(slot) => {
                        slot.insert(Pool::new(dtype, deviation, seed)?)
                    }
                };
                pool.tensor(bytes, seed, |piece| {
                    if cancel.is_cancelled() {
                        return Err(Error::Cancelled);
                    }
                    progress.add(piece.len() as u64);
                    out.write(piece)
                })?;
            }
        }
    }
    out.finish()?.commit()?;
    let parameters = tensors.iter().map(|t| t.1.iter().product::<u64>()).sum();
    Ok(Made { name: shape.name, parameters, tensor_bytes })
}

/// Values of the tensors that stay in float32; `None` for matrices.
fn small(shape: &Shape, name: &str, dims: &[u64], random: &mut Random) -> Option<Vec<f32>> {
    let n = dims.iter().product::<u64>();
    match name {
        "rope_freqs.weight" => {
            let factor = shape.rope_factor.unwrap_or(1.0).into();
            Some(llama3_factors(shape.rope_base, shape.head_dim, factor, 1.0, 4.0, 8192.0))
        }
        name if name.ends_with("norm.weight") => Some(vec![1.0; n as usize]),
        name if name.ends_with(".bias") => Some((0..n).map(|_| random.number() * 0.1).collect()),
        name if name.ends_with("shortconv.conv.weight") => {
            Some((0..n).map(|_| random.number() * 0.5).collect())
        }
        _ => None,
    }
}

fn write_floats(out: &mut TensorWriter<NewFile>, values: &[f32]) -> Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    out.write(&bytes)
}

fn keys(shape: &Shape, mix: Mix) -> Keys {
    let heads = |layer| if shape.attends(layer) { shape.kv_heads } else { 0 };
    Keys {
        arch: shape.arch.name(),
        name: format!("random weights, shape of {}", shape.name),
        file_type: mix.file_type(),
        context: shape.context.into(),
        hidden: shape.hidden,
        layers: shape.layers,
        ffn: shape.ffn,
        heads: shape.heads,
        kv_heads: (0..shape.layers).map(heads).collect(),
        head_dim: shape.head_dim,
        eps: shape.eps,
        rope_base: shape.rope_base,
        rope_linear: None,
        vocab: shape.vocab,
        taps: (shape.arch == Arch::Lfm2).then_some(3),
        window: (shape.window > 0).then_some(shape.window.into()),
        pattern: None,
        local_base: None,
    }
}
