//! What `config.json` says, within what the engine computes exactly; the rest is refused by name.

use crate::keys::{llama3_factors, Keys};
use lean_engine::{Error, Result};
use serde_json::Value;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Llama,
    Qwen2,
    Qwen3,
    Lfm2,
    Gemma3,
}

/// A checked config.
pub struct Config {
    pub family: Family,
    pub keys: Keys,
    /// Key/value heads of the layers that have attention.
    pub kv_heads: u64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Of Llama 3's rope scaling.
    pub rope_factors: Option<Vec<f32>>,
}

/// `config.json`, or its part about text.
struct Json<'a>(&'a Value);

impl Json<'_> {
    fn bad(&self, key: &str, reason: impl std::fmt::Display) -> Error {
        Error::bad_model(format_args!("config.json: {key}"), reason)
    }

    fn opt(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    fn size_or(&self, key: &str, default: Option<u64>) -> Result<u64> {
        let found = match self.opt(key) {
            Some(v) => Some(v.as_u64().ok_or_else(|| self.bad(key, "is no size"))?),
            None => default,
        };
        let bounds = 1..=1u64 << 32;
        found.filter(|n| bounds.contains(n)).ok_or_else(|| self.bad(key, "missing, zero or absurd"))
    }

    fn size(&self, key: &str) -> Result<u64> {
        self.size_or(key, None)
    }

    fn number_or(&self, key: &str, default: Option<f64>) -> Result<f64> {
        let found = match self.opt(key) {
            Some(v) => Some(v.as_f64().ok_or_else(|| self.bad(key, "is no number"))?),
            None => default,
        };
        found.ok_or_else(|| self.bad(key, "missing"))
    }

    fn flag(&self, key: &str) -> bool {
        self.opt(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Refuses a config in which a key is there with another value than the one that is computed.
    fn expect(&self, key: &str, allowed: &[&str]) -> Result<()> {
        match self.opt(key).map(|v| v.as_str().unwrap_or("not a name")) {
            Some(v) if !allowed.contains(&v) => {
                Err(unsupported(key, format_args!("{v:?}; supported is {}", allowed.join(" or "))))
            }
            _ => Ok(()),
        }
    }
}

fn unsupported(key: &str, reason: impl std::fmt::Display) -> Error {
    Error::unsupported(format_args!("config.json: {key}"), reason)
}

/// `vocab` and `ffn` are the sizes that the tensors have.
pub fn read(config: &Value, name: &str, file_type: u32, vocab: u64, ffn: u64) -> Result<Config> {
    let model_type = config["model_type"].as_str().unwrap_or("(none)");
    let family = match model_type {
        "llama" => Family::Llama,
        "qwen2" => Family::Qwen2,
        "qwen3" => Family::Qwen3,
        "lfm2" => Family::Lfm2,
        "gemma3" | "gemma3_text" => Family::Gemma3,
        other => {
            return Err(unsupported(
                "model_type",
                format_args!("{other:?}; supported are llama, qwen2, qwen3, lfm2, gemma3"),
            ))
        }
    };
    let tied_default = matches!(family, Family::Gemma3 | Family::Lfm2);
    let tied = ["tie_word_embeddings", "tie_embedding"]
        .iter()
        .find_map(|key| config.get(*key).or(config["text_config"].get(*key)).and_then(Value::as_bool))
        .unwrap_or(tied_default);
    let c = Json(if config["text_config"].is_object() { &config["text_config"] } else { config });
    refuse(&c, config, family)?;
    let gemma = family == Family::Gemma3;
    let default = |n: u64| gemma.then_some(n);
    let (hidden, layers) = (c.size("hidden_size")?, c.size("num_hidden_layers")?);
    let heads = c.size_or("num_attention_heads", default(8))?;
    let kv_heads = c.size_or("num_key_value_heads", Some(if gemma { 4 } else { heads }))?;
    let head_dim = c.size_or("head_dim", Some(if gemma { 256 } else { hidden / heads }))?;
    let layers_in = 1..=1 << 16;
    if !layers_in.contains(&layers) {
        return Err(c.bad("num_hidden_layers", format_args!("{layers} is absurd")));
    }
    let kv_of_layers = match family {
        Family::Lfm2 => lfm2_layers(&c, layers)?.into_iter().map(|a| if a { kv_heads } else { 0 }).collect(),
        _ => vec![kv_heads; layers as usize],
    };
    let rope = rope(&c, family)?;
    let rope_factors = match rope.scaling {
        Scaling::Llama3 { factor, low, high, original } => {
            Some(llama3_factors(rope.base, head_dim, factor, low, high, original))
        }
        _ => None,
    };
    if gemma {
        check_score_scale(&c, head_dim, layers)?;
    }
    let eps = if family == Family::Lfm2 { "norm_eps" } else { "rms_norm_eps" };
    let keys = Keys {
        arch: match family {
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
            Family::Lfm2 => "lfm2",
            Family::Gemma3 => "gemma3",
        },
        name: name.into(),
        file_type,
        context: c.size_or("max_position_embeddings", default(131_072))?,
        hidden,
        layers,
        ffn,
        heads,
        kv_heads: kv_of_layers,
        head_dim,
        eps: c.number_or(eps, gemma.then_some(1e-6))? as f32,
        rope_base: rope.base,
        rope_linear: match rope.scaling {
            Scaling::Linear(factor) => Some(factor as f32),
            _ => None,
        },
        vocab,
        taps: match family {
            Family::Lfm2 => Some(c.size("conv_L_cache")?),
            _ => None,
        },
        window: if gemma { Some(c.size("sliding_window")?) } else { None },
        pattern: if gemma { gemma_pattern(&c, layers)?.filter(|&n| n != 6) } else { None },
        local_base: rope.local_base.filter(|&b| b != 1e4),
    };
    Ok(Config { family, keys, kv_heads, tied, rope_factors })
}

/// Variants that would be computed wrongly.
fn refuse(c: &Json<'_>, whole: &Value, family: Family) -> Result<()> {
    if whole.get("quantization_config").is_some_and(|q| !q.is_null()) {
        return Err(unsupported(
            "quantization_config",
            "the weights are quantised already; take the original model",
        ));
    }
    let activation: &[&str] = if family == Family::Gemma3 { &["gelu_pytorch_tanh"] } else { &["silu"] };
    c.expect("hidden_act", activation)?;
    c.expect("hidden_activation", activation)?;
    for key in ["use_sliding_window", "conv_bias", "use_bidirectional_attention"] {
        if c.flag(key) {
            return Err(unsupported(key, "not supported"));
        }
    }
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if c.opt(key).is_some() {
            return Err(unsupported(key, "not supported"));
        }
    }
    if c.opt("partial_rotary_factor").is_some_and(|f| f.as_f64() != Some(1.0)) {
        return Err(unsupported("partial_rotary_factor", "only whole heads rotate"));
    }
    Ok(())
}

/// Which layers have attention.
fn lfm2_layers(c: &Json<'_>, layers: u64) -> Result<Vec<bool>> {
    if let Some(types) = c.opt("layer_types").and_then(Value::as_array) {
        let attends: Vec<bool> = types.iter().map(|t| t == "full_attention").collect();
        if attends.len() as u64 != layers || types.iter().any(|t| t != "full_attention" && t != "conv") {
            return Err(c.bad("layer_types", "expected full_attention or conv for each layer"));
        }
        return Ok(attends);
    }
    let list = c.opt("full_attn_idxs").and_then(Value::as_array);
    let list = list.ok_or_else(|| c.bad("layer_types", "missing, and full_attn_idxs as well"))?;
    Ok((0..layers).map(|i| list.iter().any(|n| n.as_u64() == Some(i))).collect())
}

/// Every how many layers one sees everything.
fn gemma_pattern(c: &Json<'_>, layers: u64) -> Result<Option<u64>> {
    let named = ["sliding_window_pattern", "_sliding_window_pattern"].iter().find_map(|k| c.opt(k)?.as_u64());
    let Some(types) = c.opt("layer_types").and_then(Value::as_array) else { return Ok(named) };
    let first = types.iter().position(|t| t == "full_attention").map(|i| i as u64 + 1);
    // A model with fewer layers than the pattern has none that sees everything.
    let pattern = first.or(named).unwrap_or(6).max(1);
    let regular =
        types.iter().enumerate().all(|(i, t)| (t == "full_attention") == ((i as u64 + 1) % pattern == 0));
    if types.len() as u64 != layers || !regular {
        return Err(unsupported("layer_types", "the layers that see everything are not evenly spaced"));
    }
    Ok(Some(pattern))
}

/// The engine knows the scale from the head size, and from the width for the 27B model.
fn check_score_scale(c: &Json<'_>, head_dim: u64, layers: u64) -> Result<()> {
    match c.opt("query_pre_attn_scalar").and_then(Value::as_f64) {
        Some(x) if x != head_dim as f64 && layers != 62 => {
            Err(unsupported("query_pre_attn_scalar", format_args!("{x} is not the head size {head_dim}")))
        }
        _ => Ok(()),
    }
}

struct Rope {
    base: f32,
    /// Of Gemma's layers with a window.
    local_base: Option<f32>,
    scaling: Scaling,
}

enum Scaling {
    None,
    Linear(f64),
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
}

/// Older configs have `rope_theta` and `rope_scaling`, newer ones `rope_parameters` with both in it, in Gemma's case
/// once for each kind of layer.
fn rope(c: &Json<'_>, family: Family) -> Result<Rope> {
    let gemma = family == Family::Gemma3;
    let default = match family {
        Family::Gemma3 | Family::Lfm2 => 1e6,
        _ => 1e4,
    };
    let parameters = c.opt("rope_parameters");
    let (global, local) = match parameters.filter(|p| p.get("full_attention").is_some()) {
        Some(p) => (Some(&p["full_attention"]), Some(&p["sliding_attention"])),
        None => (parameters.or(c.opt("rope_scaling")), None),
    };
    let theta = |part: Option<&Value>| part.and_then(|p| p.get("rope_theta")).and_then(Value::as_f64);
    let base = theta(global).or(c.opt("rope_theta").and_then(Value::as_f64)).unwrap_or(default) as f32;
    let local_base =
        theta(local).or(c.opt("rope_local_base_freq").and_then(Value::as_f64)).unwrap_or(1e4) as f32;
    let scaling = match global {
        Some(part) => scaling(part)?,
        None => Scaling::None,
    };
    if local.is_some_and(|l| l["rope_type"].as_str().is_some_and(|t| t != "default")) {
        return Err(unsupported(
            "rope_parameters.sliding_attention",
            "only the default rope is supported there",
        ));
    }
    Ok(Rope { base, local_base: gemma.then_some(local_base), scaling })
}

fn scaling(part: &Value) -> Result<Scaling> {
    let number = |key: &str| {
        let x = part[key].as_f64().filter(|x| x.is_finite() && *x > 0.0);
        x.ok_or_else(|| {
            Error::bad_model(format_args!("config.json: rope scaling: {key}"), "missing or not above zero")
        })
    };
    match part["rope_type"].as_str().or(part["type"].as_str()).unwrap_or("default") {
        "default" => Ok(Scaling::None),
        "linear" => Ok(Scaling::Linear(number("factor")?)),
        "llama3" => Ok(Scaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original: number("original_max_position_embeddings")?,
        }),
        other => {
            Err(unsupported("rope scaling", format_args!("{other:?}; supported are default, linear, llama3")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn llama() -> Value {
        json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-5})
    }

    fn with(mut config: Value, key: &str, value: Value) -> Value {
        config[key] = value;
        config
    }

    fn convert(config: &Value) -> Result<Config> {
        read(config, "n", 1, 100, 128)
    }

    #[test]
    fn old_and_new_spellings_of_the_rope_mean_the_same() {
        let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192});
        let old = with(with(llama(), "rope_theta", json!(5e5)), "rope_scaling", llama3.clone());
        let new = with(llama(), "rope_parameters", with(llama3, "rope_theta", json!(5e5)));
        let (old, new) = (convert(&old).unwrap(), convert(&new).unwrap());
        assert_eq!(old.keys, new.keys);
        assert_eq!(old.rope_factors, new.rope_factors);
        assert_eq!(old.keys.rope_base, 5e5);
        let factors = old.rope_factors.unwrap();
        assert_eq!((factors[0], factors.len(), factors[7]), (1.0, 8, 8.0));
    }

    #[test]
    fn gemma_has_defaults_of_its_own() {
        let config = json!({"model_type": "gemma3", "text_config": {"hidden_size": 2560, "num_hidden_layers": 34,
            "sliding_window": 1024, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}});
        let c = convert(&config).unwrap();
        let k = &c.keys;
        assert_eq!((k.heads, k.kv_heads[0], k.head_dim, k.context, k.eps), (8, 4, 256, 131_072, 1e-6));
        assert_eq!((k.rope_base, k.rope_linear, k.local_base, k.pattern), (1e6, Some(8.0), None, None));
        assert!(c.tied);
    }

    #[test]
    fn what_would_be_computed_wrongly_is_refused() {
        let cases = [
            (with(llama(), "model_type", json!("mamba")), "\"mamba\""),
            (with(llama(), "hidden_size", json!(0)), "hidden_size"),
            (with(llama(), "hidden_size", json!("64")), "hidden_size"),
            (with(llama(), "hidden_act", json!("gelu")), "hidden_act"),
            (with(llama(), "use_sliding_window", json!(true)), "use_sliding_window"),
            (with(llama(), "quantization_config", json!({"bits": 4})), "quantization_config"),
            (with(llama(), "partial_rotary_factor", json!(0.5)), "partial_rotary_factor"),
            (with(llama(), "rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})), "\"yarn\""),
            (with(llama(), "rope_scaling", json!({"rope_type": "linear"})), "factor"),
            (with(llama(), "model_type", json!("lfm2")), "layer_types"),
        ];
        for (config, expected) in cases {
            let error = convert(&config).err().unwrap_or_else(|| panic!("{config} was taken"));
            assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
        }
    }
}
