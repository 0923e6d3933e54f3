//! `--lora FILE[:SCALE]`.

use clap::Args;
use lean_engine::{Adapter, Model, Result};
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
    scale: f32,
}

/// A path may have colons of its own: only a number after the last one is a scale.
fn parse(text: &str) -> Result<Lora, String> {
    let scaled = text.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
    match scaled {
        Some((_, scale)) if !scale.is_finite() => Err(format!("{scale} is no scale")),
        Some((path, scale)) if !path.is_empty() => Ok(Lora { path: path.into(), scale }),
        _ => Ok(Lora { path: text.into(), scale: 1.0 }),
    }
}

impl LoraArgs {
    /// Loads them for a model.
    pub fn load(&self, model: &Model) -> Result<Vec<(Adapter, f32)>> {
        self.adapters.iter().map(|l| Ok((model.load_adapter(&l.path)?, l.scale))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_the_last_colon_is_the_scale() {
        for (text, path, scale) in [
            ("a.gguf", "a.gguf", 1.0),
            ("a.gguf:0.5", "a.gguf", 0.5),
            ("a:b:-1", "a:b", -1.0),
            ("c:\\adapters\\a", "c:\\adapters\\a", 1.0),
            (":2", ":2", 1.0),
        ] {
            assert_eq!(parse(text), Ok(Lora { path: path.into(), scale }), "{text}");
        }
        assert!(parse("a:inf").is_err());
    }
}
