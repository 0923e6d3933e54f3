//! The metadata keys of a model, as llama.cpp's converter names and types them.

use lean_engine::gguf::{Value, Writer};
use lean_engine::Result;

/// What the keys of all families are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    /// `general.architecture`, and the prefix of the others.
    pub arch: &'static str,
    pub name: String,
    pub file_type: u32,
    pub context: u64,
    pub hidden: u64,
    pub layers: u64,
    pub ffn: u64,
    pub heads: u64,
    /// Of each layer; 0 marks a convolution.
    pub kv_heads: Vec<u64>,
    pub head_dim: u64,
    pub eps: f32,
    pub rope_base: f32,
    /// Positions are divided by this.
    pub rope_linear: Option<f32>,
    pub vocab: u64,
    /// Taps of the convolutions.
    pub taps: Option<u64>,
    pub window: Option<u64>,
    /// Every so many layers one has no window; only where it is not the family's 6.
    pub pattern: Option<u64>,
    /// Base of the layers with a window; only where it is not the family's 10000.
    pub local_base: Option<f32>,
}

impl Keys {
    pub fn write(&self, w: &mut Writer) -> Result<()> {
        w.set("general.architecture", self.arch)?;
        w.set("general.type", "model")?;
        w.set("general.name", self.name.as_str())?;
        w.set("general.file_type", self.file_type)?;
        w.set("general.quantization_version", 2u32)?;
        let mut set = |key: &str, value: Option<Value>| match value {
            Some(value) => w.set(&format!("{}.{key}", self.arch), value),
            None => Ok(()),
        };
        set("block_count", Some(self.layers.into()))?;
        set("context_length", Some(self.context.into()))?;
        set("embedding_length", Some(self.hidden.into()))?;
        set("feed_forward_length", Some(self.ffn.into()))?;
        set("attention.head_count", Some(self.heads.into()))?;
        set("attention.head_count_kv", Some(self.kv_heads()))?;
        set("attention.key_length", Some(self.head_dim.into()))?;
        set("attention.value_length", Some(self.head_dim.into()))?;
        set("attention.layer_norm_rms_epsilon", Some(self.eps.into()))?;
        set("rope.freq_base", Some(self.rope_base.into()))?;
        // Readers of other families take it from the head size.
        set("rope.dimension_count", (self.arch == "llama").then(|| self.head_dim.into()))?;
        set("rope.scaling.type", self.rope_linear.map(|_| "linear".into()))?;
        set("rope.scaling.factor", self.rope_linear.map(Value::from))?;
        set("rope.freq_base_swa", self.local_base.map(Value::from))?;
        set("vocab_size", Some(self.vocab.into()))?;
        set("shortconv.l_cache", self.taps.map(Value::from))?;
        set("attention.sliding_window", self.window.map(Value::from))?;
        set("attention.sliding_window_pattern", self.pattern.map(Value::from))
    }

    /// One number where all layers agree, otherwise one a layer.
    fn kv_heads(&self) -> Value {
        match self.kv_heads.first() {
            Some(first) if self.kv_heads.iter().all(|n| n == first) => (*first).into(),
            _ => Value::Ints(self.kv_heads.iter().map(|&n| n as i64).collect()),
        }
    }
}

/// The divisors of Llama 3's rope scaling, as its authors' code and llama.cpp's converter compute them: long waves
/// are stretched by `factor`, short ones left alone, with a ramp between.
pub fn llama3_factors(base: f32, head_dim: u64, factor: f64, low: f64, high: f64, original: f64) -> Vec<f32> {
    let divisor = |i: u64| {
        let frequency = f64::from(base).powf(-2.0 * i as f64 / head_dim as f64);
        let length = std::f64::consts::TAU / frequency;
        if length < original / high {
            1.0
        } else if length > original / low {
            factor
        } else {
            let smooth = (original / length - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..head_dim / 2).map(|i| divisor(i) as f32).collect()
}
