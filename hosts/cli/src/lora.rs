//! `--lora FILE[:SCALE]`.

use clap::Args;
use lean_engine::{Adapter, AdapterUse, Error, Model, Result};
use std::path::PathBuf;

/// Adapters to run with.
#[derive(Args)]
pub struct LoraArgs {
    /// A LoRA adapter: a .gguf file or PEFT's folder, and what it is multiplied with (may be repeated)
    #[arg(long = "lora", value_name = "FILE[:SCALE]", value_parser = parse)]
    pub adapters: Vec<Lora>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    path: PathBuf,
    scale: Option<f32>,
}

/// A path may have colons of its own: only a number after the last one is a scale.
fn parse(text: &str) -> Result<Lora, String> {
    let scaled = text.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
    match scaled {
        Some((_, scale)) if !scale.is_finite() => Err(format!("{scale} is no scale")),
        Some((path, scale)) if !path.is_empty() => Ok(Lora { path: path.into(), scale: Some(scale) }),
        _ => Ok(Lora { path: text.into(), scale: None }),
    }
}

impl LoraArgs {
    /// Loads them for a model.
    pub fn load(&self, model: &Model) -> Result<Vec<(Adapter, f32)>> {
        self.adapters.iter().map(|l| Ok((model.load_adapter(&l.path)?, l.scale.unwrap_or(1.0)))).collect()
    }

    /// Loads those that something was made with, which says itself at what scale; another one, or another scale, is
    /// refused.
    pub fn load_used(&self, model: &Model, uses: &[AdapterUse]) -> Result<Vec<Adapter>> {
        let load = |lora: &Lora| {
            let adapter = model.load_adapter(&lora.path)?;
            let refused =
                |why: String| Err(Error::invalid("--lora", format!("{}: {why}", lora.path.display())));
            match uses.iter().find(|u| u.fingerprint == adapter.fingerprint()) {
                None => refused("the checkpoint was made without it".into()),
                Some(u) if lora.scale.is_some_and(|s| s != u.scale) => {
                    refused(format!("the checkpoint was made with it at scale {}", u.scale))
                }
                Some(_) => Ok(adapter),
            }
        };
        self.adapters.iter().map(load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_the_last_colon_is_the_scale() {
        for (text, path, scale) in [
            ("a.gguf", "a.gguf", None),
            ("a.gguf:0.5", "a.gguf", Some(0.5)),
            ("a:b:-1", "a:b", Some(-1.0)),
            ("c:\\adapters\\a", "c:\\adapters\\a", None),
            (":2", ":2", None),
        ] {
            assert_eq!(parse(text), Ok(Lora { path: path.into(), scale }), "{text}");
        }
        assert!(parse("a:inf").is_err());
    }
}
