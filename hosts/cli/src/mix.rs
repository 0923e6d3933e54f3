//! Which tensor gets which type when a whole model is asked for in one: the rules of llama.cpp's quantiser.

use clap::ValueEnum;
use lean_engine::quant::DType;
use std::ops::Range;

/// What a whole model can be asked for in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
#[allow(non_camel_case_types)]
pub enum Mix {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4_k_m,
    Q5_k_m,
    Q6_k,
}

impl Mix {
    /// The type of most tensors.
    fn plain(self) -> DType {
        match self {
            Mix::F32 => DType::F32,
            Mix::F16 => DType::F16,
            Mix::Bf16 => DType::BF16,
            Mix::Q8_0 => DType::Q8_0,
            Mix::Q4_0 => DType::Q4_0,
            Mix::Q4_1 => DType::Q4_1,
            Mix::Q5_0 => DType::Q5_0,
            Mix::Q5_1 => DType::Q5_1,
            Mix::Q4_k_m => DType::Q4_K,
            Mix::Q5_k_m => DType::Q5_K,
            Mix::Q6_k => DType::Q6_K,
        }
    }

    /// `general.file_type`.
    pub fn file_type(self) -> u32 {
        match self {
            Mix::F32 => 0,
            Mix::F16 => 1,
            Mix::Q4_0 => 2,
            Mix::Q4_1 => 3,
            Mix::Q8_0 => 7,
            Mix::Q5_0 => 8,
            Mix::Q5_1 => 9,
            Mix::Q4_k_m => 15,
            Mix::Q5_k_m => 17,
            Mix::Q6_k => 18,
            Mix::Bf16 => 32,
        }
    }
}

/// What the rules ask about a model.
pub struct Model {
    /// Whether `output.weight` is there.
    pub untied: bool,
    pub layers: usize,
    /// Layers that have an `attn_v`, in order.
    pub attention: Vec<usize>,
}

impl Model {
    /// From the names of all tensors.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let (mut untied, mut layers, mut attention) = (false, 0, Vec::new());
        for name in names {
            untied |= name == "output.weight";
            if let Some((layer, part)) = layer_of(name) {
                layers = layers.max(layer + 1);
                if part == "attn_v.weight" {
                    attention.push(layer);
                }
            }
        }
        attention.sort_unstable();
        Model { untied, layers, attention }
    }

    /// The type of a tensor; `dims` in GGUF's order. `None` where a tensor keeps full precision: vectors, norms, and
    /// the few taps of a convolution.
    pub fn dtype(&self, mix: Mix, name: &str, dims: &[u64]) -> Option<DType> {
        let matrix = dims.iter().filter(|&&n| n > 1).count() >= 2 && dims.len() >= 2;
        if !matrix
            || !name.ends_with("weight")
            || name.ends_with("_norm.weight")
            || name.contains("shortconv.conv")
        {
            return None;
        }
        let head = name == "output.weight" || (!self.untied && name == "token_embd.weight");
        let dtype = match mix {
            Mix::F32 | Mix::F16 | Mix::Bf16 | Mix::Q8_0 => mix.plain(),
            _ if head => DType::Q6_K,
            Mix::Q4_k_m | Mix::Q5_k_m if self.deserves_more(name) => DType::Q6_K,
            _ => mix.plain(),
        };
        Some(fitting(dtype, dims[0]))
    }

    /// Values of attention and the way down of the feed-forward in the first and last eighth of the layers, and in
    /// every third between.
    fn deserves_more(&self, name: &str) -> bool {
        let among = |i: usize, n: usize| i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
        match layer_of(name) {
            Some((layer, "ffn_down.weight")) => among(layer, self.layers),
            Some((layer, "attn_v.weight")) => {
                self.attention.binary_search(&layer).is_ok_and(|i| among(i, self.attention.len()))
            }
            _ => false,
        }
    }
}

/// Rows that are not whole blocks take the next format with smaller blocks.
fn fitting(dtype: DType, columns: u64) -> DType {
    let fits = |t: DType| columns % t.block_elems() as u64 == 0;
    let smaller = match dtype {
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        other => other,
    };
    [dtype, smaller].into_iter().find(|t| fits(*t)).unwrap_or(DType::F16)
}

/// `blk.N.rest`.
fn layer_of(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    // A file can name any layer; the rules only need sane ones.
    Some((layer.parse().ok().filter(|&n: &usize| n < 1 << 16)?, part))
}

/// Rows that are worked on at once: about 4 million elements, so that a large tensor is never in memory whole.
pub fn row_chunks(columns: u64, rows: u64) -> impl Iterator<Item = Range<u64>> {
    let step = ((4 << 20) / columns.max(1)).max(1);
    (0..rows.div_ceil(step)).map(move |i| i * step..((i + 1) * step).min(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(mix: Mix, layers: usize, untied: bool, name: &str, dims: &[u64]) -> Option<DType> {
        Model { untied, layers, attention: (0..layers).collect() }.dtype(mix, name, dims)
    }

    #[test]
    fn types_are_those_of_llama_cpp() {
        use DType::*;
        let wide: &[u64] = &[2048, 512];
        let narrow: &[u64] = &[576, 512];
        let cases = [
            (Mix::Q4_k_m, true, "token_embd.weight", wide, Some(Q4_K)),
            (Mix::Q4_k_m, false, "token_embd.weight", wide, Some(Q6_K)),
            (Mix::Q4_k_m, true, "output.weight", wide, Some(Q6_K)),
            (Mix::Q4_k_m, true, "output.weight", narrow, Some(Q8_0)),
            (Mix::Q4_k_m, true, "token_embd.weight", narrow, Some(Q5_0)),
            (Mix::Q4_1, false, "token_embd.weight", narrow, Some(Q8_0)),
            (Mix::Q4_0, true, "output.weight", wide, Some(Q6_K)),
            (Mix::Q8_0, true, "output.weight", wide, Some(Q8_0)),
            (Mix::F16, true, "output.weight", wide, Some(F16)),
            (Mix::Q4_k_m, true, "blk.3.attn_q.weight", wide, Some(Q4_K)),
            (Mix::Q4_k_m, true, "blk.3.attn_v.weight", wide, Some(Q4_K)),
            (Mix::Q4_k_m, true, "blk.1.attn_v.weight", wide, Some(Q6_K)),
            (Mix::Q4_k_m, true, "blk.4.ffn_down.weight", wide, Some(Q6_K)),
            (Mix::Q4_k_m, true, "blk.14.ffn_down.weight", wide, Some(Q6_K)),
            (Mix::Q4_k_m, true, "blk.5.ffn_down.weight", wide, Some(Q4_K)),
            (Mix::Q4_0, true, "blk.1.attn_v.weight", wide, Some(Q4_0)),
            (Mix::Q4_0, true, "blk.1.attn_v.weight", &[40, 8], Some(F16)),
            (Mix::Q4_0, true, "blk.1.attn_norm.weight", &[2048], None),
            (Mix::Q4_0, true, "blk.1.attn_q.bias", &[2048], None),
            (Mix::Q4_0, true, "blk.1.shortconv.conv.weight", &[3, 2048], None),
        ];
        for (mix, untied, name, dims, expected) in cases {
            assert_eq!(
                dtype(mix, 16, untied, name, dims),
                expected,
                "{mix:?} {name} {dims:?} untied {untied}"
            );
        }
    }

    #[test]
    fn convolutions_do_not_count_among_the_attentions() {
        let names =
            ["blk.0.ffn_up.weight", "blk.2.attn_v.weight", "blk.9.attn_v.weight", "blk.15.ffn_up.weight"];
        let model = Model::new(names.into_iter());
        assert_eq!((model.layers, model.attention.as_slice(), model.untied), (16, [2, 9].as_slice(), false));
        assert_eq!(model.dtype(Mix::Q4_k_m, "blk.9.attn_v.weight", &[256, 256]), Some(DType::Q6_K));
        assert_eq!(model.dtype(Mix::Q4_k_m, "blk.2.attn_v.weight", &[256, 256]), Some(DType::Q4_K));
    }

    #[test]
    fn chunks_cover_all_rows() {
        for (columns, rows) in [(1, 1), (4096, 128_256), (5 << 20, 3), (7, 0)] {
            let chunks: Vec<_> = row_chunks(columns, rows).collect();
            let mut at = 0;
            for c in &chunks {
                assert_eq!(c.start, at);
                at = c.end;
            }
            assert_eq!(at, rows);
        }
    }
}
