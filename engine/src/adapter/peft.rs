//! PEFT's LoRA: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Names and meanings are those of PEFT's `LoraConfig` and `LoraLayer`: a module's update is
//! `lora_B lora_A * alpha / r`, with rsLoRA (arXiv:2312.03732) `* alpha / sqrt(r)`.

use super::parts::{Part, Parts};
use super::weights::{self, Tensor};
use crate::error::{Error, Result};
use crate::gguf::shown;
use crate::model::{Target, Targets};
use indexmap::IndexMap;
use serde_json::{Map, Value};

/// Settings that change what is computed in ways that are not supported, refused wherever they are set.
const REFUSED: &[(&str, &str)] = &[
    ("use_dora", "DoRA (weight decomposition) is not supported; plain LoRA and rsLoRA are"),
    ("modules_to_save", "whole retrained modules are not supported; train without modules_to_save"),
    ("lora_bias", "biases in the update are not supported"),
    ("fan_in_fan_out", "transposed weights are not supported"),
    ("layer_replication", "replicated layers are not supported"),
    ("trainable_token_indices", "retrained embeddings are not supported"),
    ("target_parameters", "updates of bare parameters are not supported"),
    ("alora_invocation_tokens", "activated LoRA is not supported"),
    ("use_qalora", "QALoRA is not supported"),
    ("use_bdlora", "block-diagonal LoRA is not supported"),
    ("arrow_config", "Arrow routing is not supported"),
    ("megatron_config", "Megatron's parallel layers are not supported"),
];

/// PEFT's module names after `layers.N.` and the stems of the model file's tensors.
const MODULES: &[(&str, &str)] = &[
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.out_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("feed_forward.w1", "ffn_gate"),
    ("feed_forward.w3", "ffn_up"),
    ("feed_forward.w2", "ffn_down"),
    ("conv.in_proj", "shortconv.in_proj"),
    ("conv.out_proj", "shortconv.out_proj"),
];

struct Config {
    r: f64,
    alpha: f64,
    rslora: bool,
    ranks: IndexMap<String, f64>,
    alphas: IndexMap<String, f64>,
}

/// The updates of an adapter, not yet checked against the model's sizes.
pub(super) fn read(config: &[u8], weights: &[u8], targets: &Targets) -> Result<Parts> {
    let config = Config::read(config)?;
    let tensors = weights::read(weights)?;
    let mut parts = Parts::default();
    for (name, tensor) in &tensors {
        let (module, is_b) = module_of(name)?;
        let (stem, target) = target_of(name, module, targets)?;
        let (rows, cols) = tensor.matrix(name)?;
        let rank = if is_b { cols } else { rows };
        let expected = config.rank(module)?;
        if rank as f64 != expected {
            let reason = format!(
                "its shape is {:?}, which is no rank of {expected} as the config says",
                tensor.shape()
            );
            return Err(Error::bad_model(format_args!("adapter tensor {}", shown(name)), reason));
        }
        let part = parts.part(&stem, target);
        part.factor = config.factor(module)?;
        fill(part, name, tensor, is_b, (rows, cols))?;
    }
    Ok(parts)
}

fn fill(
    part: &mut Part,
    name: &str,
    tensor: &Tensor<'_>,
    is_b: bool,
    (rows, cols): (usize, usize),
) -> Result<()> {
    let values = tensor.floats(name)?;
    if is_b {
        let values = match part.target.interleaved {
            Some(head) => interleave(name, &values, rows, cols, head)?,
            None => values,
        };
        part.set_b(name, rows, cols, values)
    } else {
        part.set_a(name, rows, cols, values)
    }
}

/// Rows of each head from two halves one after the other to pairs beside each other, as the model file has them.
fn interleave(name: &str, values: &[f32], rows: usize, cols: usize, head: usize) -> Result<Vec<f32>> {
    if !rows.is_multiple_of(head) {
        let reason = format!("its {rows} rows are no whole heads of {head}");
        return Err(Error::bad_model(format_args!("adapter tensor {}", shown(name)), reason));
    }
    let mut out = crate::error::try_zeroed(values.len(), "an adapter's rows")?;
    for (row, to) in out.chunks_exact_mut(cols.max(1)).enumerate() {
        let (first, i) = (row / head * head, row % head);
        let from = (first + i % 2 * (head / 2) + i / 2) * cols;
        to.copy_from_slice(&values[from..from + cols]);
    }
    Ok(out)
}

/// The module of a tensor's name, and whether it is `B`.
fn module_of(name: &str) -> Result<(&str, bool)> {
    let refuse = |reason: &str| Err(Error::unsupported(format!("adapter tensor {}", shown(name)), reason));
    let module = name.strip_prefix("base_model.model.").unwrap_or(name);
    if let Some(module) = module.strip_suffix(".lora_A.weight") {
        return Ok((module, false));
    }
    if let Some(module) = module.strip_suffix(".lora_B.weight") {
        return Ok((module, true));
    }
    if name.contains("lora_magnitude_vector") {
        return refuse("DoRA (weight decomposition) is not supported; plain LoRA and rsLoRA are");
    }
    if name.contains("lora_embedding") {
        return refuse("updates of embeddings are not supported");
    }
    if name.ends_with(".bias") {
        return refuse("trained biases are not supported; train with bias \"none\"");
    }
    refuse("it is neither lora_A nor lora_B of a module; whole retrained modules are not supported")
}

/// The matrix of the model that a module is.
fn target_of(name: &str, module: &str, targets: &Targets) -> Result<(String, Target)> {
    let what = || format!("adapter tensor {}", shown(name));
    let prefixes = ["model.layers.", "model.language_model.layers.", "language_model.model.layers."];
    let place = prefixes.iter().find_map(|p| module.strip_prefix(p)).and_then(|rest| rest.split_once('.'));
    let found = place.and_then(|(layer, rest)| {
        let layer: usize = layer.parse().ok()?;
        let stem = MODULES.iter().find(|m| m.0 == rest)?.1;
        Some(format!("blk.{layer}.{stem}.weight"))
    });
    let Some(stem) = found else {
        let reason =
            "only the projections of attention and feed-forward can be updated, not embeddings or the head";
        return Err(Error::unsupported(what(), reason));
    };
    match targets.get(&stem) {
        Some(target) => Ok((stem, *target)),
        None => Err(Error::bad_model(what(), format_args!("the model has no {stem}"))),
    }
}

impl Config {
    fn read(bytes: &[u8]) -> Result<Self> {
        let bad = |key: &str, reason: String| {
            Err(Error::bad_model(format_args!("adapter_config.json: {}", shown(key)), reason))
        };
        let map: Map<String, Value> = match serde_json::from_slice(bytes) {
            Ok(map) => map,
            Err(e) => return bad("it is no JSON object", e.to_string()),
        };
        let unsupported =
            |key: &str, reason: &str| Err(Error::unsupported(format!("adapter_config.json: {key}"), reason));
        match map.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(other) => return unsupported("peft_type", &format!("{} is not LORA", shown(other))),
            None => return bad("peft_type", "missing".into()),
        }
        match map.get("bias") {
            None | Some(Value::Null) => {}
            Some(Value::String(s)) if s == "none" => {}
            Some(other) => return unsupported("bias", &format!("{other} is not supported; \"none\" is")),
        }
        for (key, reason) in REFUSED {
            if map.get(*key).is_some_and(is_set) {
                return unsupported(key, reason);
            }
        }
        let number = |key: &str| match map.get(key).and_then(Value::as_f64) {
            Some(x) if x > 0.0 && x <= 1e6 => Ok(x),
            _ => Err(Error::bad_model(
                format_args!("adapter_config.json: {key}"),
                "missing, or not a number above 0 and up to 1000000",
            )),
        };
        Ok(Config {
            r: number("r")?,
            alpha: number("lora_alpha")?,
            rslora: map.get("use_rslora").is_some_and(is_set),
            ranks: pattern(&map, "rank_pattern")?,
            alphas: pattern(&map, "alpha_pattern")?,
        })
    }

    fn rank(&self, module: &str) -> Result<f64> {
        Ok(lookup("rank_pattern", &self.ranks, module)?.unwrap_or(self.r))
    }

    fn factor(&self, module: &str) -> Result<f32> {
        let (rank, alpha) = (self.rank(module)?, lookup("alpha_pattern", &self.alphas, module)?);
        let divisor = if self.rslora { libm::sqrt(rank) } else { rank };
        Ok((alpha.unwrap_or(self.alpha) / divisor) as f32)
    }
}

/// Whether a setting differs from its absence.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// `rank_pattern` or `alpha_pattern`.
fn pattern(map: &Map<String, Value>, key: &str) -> Result<IndexMap<String, f64>> {
    let bad = |reason: String| Error::bad_model(format_args!("adapter_config.json: {key}"), reason);
    let entries = match map.get(key) {
        None | Some(Value::Null) => return Ok(IndexMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return Err(bad("is no object".into())),
    };
    let entry = |(name, value): (&String, &Value)| match value.as_f64() {
        Some(x) if x > 0.0 && x <= 1e6 => Ok((name.clone(), x)),
        _ => Err(bad(format!("{value} of {} is not a number above 0 and up to 1000000", shown(name)))),
    };
    entries.iter().map(entry).collect()
}

/// The first pattern that matches a module. PEFT matches `(.*\.)?(pattern)$`; of regular expressions `^` at the
/// start and `.` for any character are understood here, other operators are refused.
fn lookup(key: &str, patterns: &IndexMap<String, f64>, module: &str) -> Result<Option<f64>> {
    for (pattern, value) in patterns {
        let (whole, text) = match pattern.strip_prefix('^') {
            Some(text) => (true, text),
            None => (false, pattern.as_str()),
        };
        if let Some(c) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c))) {
            let reason =
                format!("{} uses the operator {c:?}; module names with ^ in front are read", shown(pattern));
            return Err(Error::unsupported(format!("adapter_config.json: {key}"), reason));
        }
        let Some(start) = module.len().checked_sub(text.len()) else { continue };
        let same = module.bytes().skip(start).zip(text.bytes()).all(|(m, p)| m == p || p == b'.');
        let at_boundary = start == 0 || (!whole && module.as_bytes()[start - 1] == b'.');
        if same && at_boundary {
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_peft() {
        let module = "model.layers.1.self_attn.q_proj";
        for (pattern, matches) in [
            ("q_proj", true),
            ("self_attn.q_proj", true),
            ("layers.1.self_attn.q_proj", true),
            ("^model.layers.1.self_attn.q_proj", true),
            ("^layers.1.self_attn.q_proj", false),
            ("proj", false),
            ("k_proj", false),
            ("layers.2.self_attn.q_proj", false),
            ("a.much.longer.name.than.the.module.has.self_attn.q_proj", false),
        ] {
            let patterns = IndexMap::from([(pattern.to_string(), 3.0)]);
            assert_eq!(lookup("rank_pattern", &patterns, module).unwrap().is_some(), matches, "{pattern}");
        }
        let regex = IndexMap::from([("layers\\.[01]\\..*".to_string(), 3.0)]);
        assert!(matches!(lookup("rank_pattern", &regex, module), Err(Error::UnsupportedModel { .. })));
    }

    #[test]
    fn rows_are_interleaved_head_by_head() {
        // Two heads of four rows: halves (0 1 | 2 3) become pairs (0 2)(1 3).
        let rows: Vec<f32> = (0..8).map(|i| i as f32).collect();
        assert_eq!(interleave("b", &rows, 8, 1, 4).unwrap(), [0., 2., 1., 3., 4., 6., 5., 7.]);
        assert!(interleave("b", &rows[..6], 6, 1, 4).is_err());
    }
}
