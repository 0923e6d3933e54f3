//! The dimensions of published models, by family and rough size.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Arch {
    Llama,
    Qwen2,
    Qwen3,
    Lfm2,
    Gemma3,
}

impl Arch {
    /// `general.architecture`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Llama => "llama",
            Arch::Qwen2 => "qwen2",
            Arch::Qwen3 => "qwen3",
            Arch::Lfm2 => "lfm2",
            Arch::Gemma3 => "gemma3",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Size {
    /// Two layers, for trying things out
    Tiny,
    /// SmolLM2-135M, Qwen2.5-0.5B, Qwen3-0.6B, LFM2-350M, Gemma 3 270M
    #[value(name = "135m")]
    M135,
    /// Llama-3.2-1B, Qwen2.5-1.5B, Qwen3-1.7B, LFM2-1.2B, Gemma 3 1B
    #[value(name = "1.2b")]
    B1,
    /// Llama-3.2-3B, Qwen2.5-3B, Qwen3-4B, LFM2-2.6B, Gemma 3 4B
    #[value(name = "3b")]
    B3,
    /// Llama-3.1-8B, Qwen2.5-7B, Qwen3-8B, LFM2-1.2B made wider, Gemma 3 12B
    #[value(name = "8b")]
    B8,
}

/// Everything that decides the tensors and the keys of a model.
#[derive(Clone, Debug)]
pub struct Shape {
    pub arch: Arch,
    /// What it is the shape of.
    pub name: &'static str,
    pub vocab: u64,
    pub hidden: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub ffn: u64,
    pub context: u32,
    pub tied: bool,
    pub rope_base: f32,
    pub eps: f32,
    /// Llama 3's scaling: factor of the lowest frequencies.
    pub rope_factor: Option<f32>,
    /// Layers with attention; all where this is empty.
    pub attention: &'static [u64],
    /// Of the local layers; 0 for none.
    pub window: u32,
}

/// Hidden, layers, heads, key/value heads, head size, feed-forward, vocabulary.
type Dims = [u64; 7];

/// LFM2's layers with attention; the others are convolutions.
const LFM2: &[u64] = &[2, 5, 8, 10, 12, 14];
const LFM2_TINY: &[u64] = &[1];
const LFM2_LARGE: &[u64] = &[2, 5, 9, 13, 17, 21, 25, 28];

impl Shape {
    pub fn new(arch: Arch, size: Size) -> Self {
        let (name, dims, tied) = published(arch, size);
        let [hidden, layers, heads, kv_heads, head_dim, ffn, vocab] = dims;
        let tiny = size == Size::Tiny;
        let small_llama = arch == Arch::Llama && matches!(size, Size::Tiny | Size::M135);
        Shape {
            arch,
            name,
            vocab,
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            ffn,
            context: match arch {
                _ if tiny => 2048,
                Arch::Llama if small_llama => 8192,
                Arch::Llama => 131_072,
                Arch::Qwen2 => 32_768,
                Arch::Qwen3 => 40_960,
                Arch::Lfm2 => 128_000,
                Arch::Gemma3 => 32_768,
            },
            tied,
            rope_base: match arch {
                Arch::Llama if small_llama => 1e5,
                Arch::Llama => 5e5,
                _ => 1e6,
            },
            eps: if matches!(arch, Arch::Llama | Arch::Lfm2) { 1e-5 } else { 1e-6 },
            rope_factor: match (arch, size) {
                (Arch::Llama, Size::B1 | Size::B3) => Some(32.0),
                (Arch::Llama, Size::B8) => Some(8.0),
                _ => None,
            },
            attention: match (arch, size) {
                (Arch::Lfm2, Size::Tiny) => LFM2_TINY,
                (Arch::Lfm2, Size::B3) => LFM2_LARGE,
                (Arch::Lfm2, _) => LFM2,
                _ => &[],
            },
            window: match (arch, size) {
                (Arch::Gemma3, Size::B3 | Size::B8) => 1024,
                (Arch::Gemma3, _) => 512,
                _ => 0,
            },
        }
    }

    /// Whether a layer has attention.
    pub fn attends(&self, layer: u64) -> bool {
        self.attention.is_empty() || self.attention.contains(&layer)
    }

    /// Names and dimensions (GGUF's order) of all tensors, in the order of the file.
    pub fn tensors(&self) -> Vec<(String, Vec<u64>)> {
        let (h, q, kv) = (self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut out = vec![("token_embd.weight".to_string(), vec![h, self.vocab])];
        if self.rope_factor.is_some() {
            out.push(("rope_freqs.weight".into(), vec![self.head_dim / 2]));
        }
        for layer in 0..self.layers {
            let mut add = |part: &str, dims: &[u64]| out.push((format!("blk.{layer}.{part}"), dims.to_vec()));
            add("attn_norm.weight", &[h]);
            if self.attends(layer) {
                for (part, rows) in [("q", q), ("k", kv), ("v", kv)] {
                    add(&format!("attn_{part}.weight"), &[h, rows]);
                    if self.arch == Arch::Qwen2 {
                        add(&format!("attn_{part}.bias"), &[rows]);
                    }
                }
                if matches!(self.arch, Arch::Qwen3 | Arch::Lfm2 | Arch::Gemma3) {
                    add("attn_q_norm.weight", &[self.head_dim]);
                    add("attn_k_norm.weight", &[self.head_dim]);
                }
                add("attn_output.weight", &[q, h]);
            } else {
                add("shortconv.in_proj.weight", &[h, 3 * h]);
                add("shortconv.conv.weight", &[3, h]);
                add("shortconv.out_proj.weight", &[h, h]);
            }
            if self.arch == Arch::Gemma3 {
                add("post_attention_norm.weight", &[h]);
                add("post_ffw_norm.weight", &[h]);
            }
            add("ffn_norm.weight", &[h]);
            add("ffn_gate.weight", &[h, self.ffn]);
            add("ffn_up.weight", &[h, self.ffn]);
            add("ffn_down.weight", &[self.ffn, h]);
        }
        let last = if self.arch == Arch::Lfm2 { "token_embd_norm.weight" } else { "output_norm.weight" };
        out.push((last.into(), vec![h]));
        if !self.tied {
            out.push(("output.weight".into(), vec![h, self.vocab]));
        }
        out
    }
}

fn published(arch: Arch, size: Size) -> (&'static str, Dims, bool) {
    match (arch, size) {
        (Arch::Llama, Size::Tiny) => ("tiny llama", [256, 2, 4, 2, 64, 512, 1024], true),
        (Arch::Llama, Size::M135) => ("SmolLM2-135M", [576, 30, 9, 3, 64, 1536, 49_152], true),
        (Arch::Llama, Size::B1) => ("Llama-3.2-1B", [2048, 16, 32, 8, 64, 8192, 128_256], true),
        (Arch::Llama, Size::B3) => ("Llama-3.2-3B", [3072, 28, 24, 8, 128, 8192, 128_256], true),
        (Arch::Llama, Size::B8) => ("Llama-3.1-8B", [4096, 32, 32, 8, 128, 14_336, 128_256], false),
        (Arch::Qwen2, Size::Tiny) => ("tiny qwen2", [256, 2, 4, 2, 64, 512, 1024], true),
        (Arch::Qwen2, Size::M135) => ("Qwen2.5-0.5B", [896, 24, 14, 2, 64, 4864, 151_936], true),
        (Arch::Qwen2, Size::B1) => ("Qwen2.5-1.5B", [1536, 28, 12, 2, 128, 8960, 151_936], true),
        (Arch::Qwen2, Size::B3) => ("Qwen2.5-3B", [2048, 36, 16, 2, 128, 11_008, 151_936], true),
        (Arch::Qwen2, Size::B8) => ("Qwen2.5-7B", [3584, 28, 28, 4, 128, 18_944, 152_064], false),
        (Arch::Qwen3, Size::Tiny) => ("tiny qwen3", [256, 2, 4, 2, 128, 512, 1024], true),
        (Arch::Qwen3, Size::M135) => ("Qwen3-0.6B", [1024, 28, 16, 8, 128, 3072, 151_936], true),
        (Arch::Qwen3, Size::B1) => ("Qwen3-1.7B", [2048, 28, 16, 8, 128, 6144, 151_936], true),
        (Arch::Qwen3, Size::B3) => ("Qwen3-4B", [2560, 36, 32, 8, 128, 9728, 151_936], true),
        (Arch::Qwen3, Size::B8) => ("Qwen3-8B", [4096, 36, 32, 8, 128, 12_288, 151_936], false),
        (Arch::Lfm2, Size::Tiny) => ("tiny lfm2", [256, 2, 4, 2, 64, 512, 1024], true),
        (Arch::Lfm2, Size::M135) => ("LFM2-350M", [1024, 16, 16, 8, 64, 4608, 65_536], true),
        (Arch::Lfm2, Size::B1) => ("LFM2-1.2B", [2048, 16, 32, 8, 64, 8192, 65_536], true),
        (Arch::Lfm2, Size::B3) => ("LFM2-2.6B", [2048, 30, 32, 8, 64, 10_752, 65_536], true),
        (Arch::Lfm2, Size::B8) => ("LFM2 of 8B", [5120, 16, 40, 8, 128, 24_576, 65_536], true),
        (Arch::Gemma3, Size::Tiny) => ("tiny gemma3", [256, 2, 4, 2, 64, 512, 1024], true),
        (Arch::Gemma3, Size::M135) => ("Gemma 3 270M", [640, 18, 4, 1, 256, 2048, 262_144], true),
        (Arch::Gemma3, Size::B1) => ("Gemma 3 1B", [1152, 26, 4, 1, 256, 6912, 262_144], true),
        (Arch::Gemma3, Size::B3) => ("Gemma 3 4B", [2560, 34, 8, 4, 256, 10_240, 262_208], true),
        (Arch::Gemma3, Size::B8) => ("Gemma 3 12B", [3840, 48, 16, 8, 256, 15_360, 262_208], true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_models() {
        // Millions, from the models' cards.
        let cases = [
            (Arch::Llama, Size::M135, 134.5),
            (Arch::Llama, Size::B1, 1235.8),
            (Arch::Llama, Size::B3, 3212.7),
            (Arch::Llama, Size::B8, 8030.3),
            (Arch::Qwen2, Size::M135, 494.0),
            (Arch::Qwen2, Size::B8, 7615.6),
            (Arch::Qwen3, Size::M135, 596.0),
            (Arch::Qwen3, Size::B8, 8190.7),
            (Arch::Lfm2, Size::M135, 354.5),
            (Arch::Lfm2, Size::B1, 1170.3),
            (Arch::Gemma3, Size::M135, 268.1),
            (Arch::Gemma3, Size::B1, 999.9),
        ];
        for (arch, size, expected) in cases {
            let tensors = Shape::new(arch, size).tensors();
            let n: u64 = tensors.iter().map(|t| t.1.iter().product::<u64>()).sum();
            let millions = n as f64 / 1e6;
            assert!(
                (millions - expected).abs() < 0.06 * 1.0 + expected * 1e-4,
                "{arch:?} {size:?}: {millions}"
            );
        }
    }
}
