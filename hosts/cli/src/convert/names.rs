//! Tensor names of transformers to those of GGUF, and what changes on the way.

use super::config::Family;
use lean_engine::{Error, Result};

/// What a tensor becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    /// Rows of each head from halves that rotate together to adjacent pairs that do. The heads are query heads or
    /// key/value heads.
    PermuteQuery,
    PermuteKey,
    /// Gemma's norms multiply by one plus the weight; GGUF has the sum.
    PlusOne,
}

/// `None` for what is no weight of the text model.
pub fn target(family: Family, name: &str) -> Result<Option<Target>> {
    if ["vision_tower.", "multi_modal_projector."].iter().any(|part| name.contains(part))
        || name.ends_with("rotary_emb.inv_freq")
    {
        return Ok(None);
    }
    let unknown = || {
        let what = format!("tensor {}", name.escape_debug());
        Error::unsupported(what, "this family has no place for it, so the result would not be the model")
    };
    let short = ["model.language_model.", "language_model.model.", "language_model.", "model."]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    let renamed = match short.strip_prefix("layers.") {
        Some(rest) => {
            let (layer, part) = rest.split_once('.').ok_or_else(unknown)?;
            let layer: u32 = layer.parse().map_err(|_| unknown())?;
            let (stem, kind) = part.rsplit_once('.').ok_or_else(unknown)?;
            if !matches!(kind, "weight" | "bias") {
                return Err(unknown());
            }
            format!("blk.{layer}.{}.{kind}", layer_part(family, stem).ok_or_else(unknown)?)
        }
        None => top(family, short).ok_or_else(unknown)?.to_string(),
    };
    let change = match family {
        Family::Llama if renamed.contains(".attn_q.") => Change::PermuteQuery,
        Family::Llama if renamed.contains(".attn_k.") => Change::PermuteKey,
        Family::Gemma3 if renamed.ends_with("norm.weight") => Change::PlusOne,
        _ => Change::None,
    };
    Ok(Some(Target { name: renamed, change }))
}

fn top(family: Family, name: &str) -> Option<&'static str> {
    match (family, name) {
        (_, "embed_tokens.weight") => Some("token_embd.weight"),
        (_, "lm_head.weight") => Some("output.weight"),
        (Family::Lfm2, "embedding_norm.weight") => Some("token_embd_norm.weight"),
        (Family::Lfm2, _) => None,
        (_, "norm.weight") => Some("output_norm.weight"),
        _ => None,
    }
}

fn layer_part(family: Family, stem: &str) -> Option<&'static str> {
    let attention = match stem {
        "self_attn.q_proj" => Some("attn_q"),
        "self_attn.k_proj" => Some("attn_k"),
        "self_attn.v_proj" => Some("attn_v"),
        "self_attn.o_proj" | "self_attn.out_proj" => Some("attn_output"),
        "self_attn.q_norm" | "self_attn.q_layernorm" => Some("attn_q_norm"),
        "self_attn.k_norm" | "self_attn.k_layernorm" => Some("attn_k_norm"),
        _ => None,
    };
    if attention.is_some() {
        return attention;
    }
    match (family, stem) {
        (Family::Lfm2, "feed_forward.w1") => Some("ffn_gate"),
        (Family::Lfm2, "feed_forward.w3") => Some("ffn_up"),
        (Family::Lfm2, "feed_forward.w2") => Some("ffn_down"),
        (Family::Lfm2, "operator_norm") => Some("attn_norm"),
        (Family::Lfm2, "ffn_norm") => Some("ffn_norm"),
        (Family::Lfm2, "conv.conv") => Some("shortconv.conv"),
        (Family::Lfm2, "conv.in_proj") => Some("shortconv.in_proj"),
        (Family::Lfm2, "conv.out_proj") => Some("shortconv.out_proj"),
        (Family::Lfm2, _) => None,
        (_, "mlp.gate_proj") => Some("ffn_gate"),
        (_, "mlp.up_proj") => Some("ffn_up"),
        (_, "mlp.down_proj") => Some("ffn_down"),
        (_, "input_layernorm") => Some("attn_norm"),
        (Family::Gemma3, "post_attention_layernorm") => Some("post_attention_norm"),
        (Family::Gemma3, "pre_feedforward_layernorm") => Some("ffn_norm"),
        (Family::Gemma3, "post_feedforward_layernorm") => Some("post_ffw_norm"),
        (_, "post_attention_layernorm") => Some("ffn_norm"),
        _ => None,
    }
}

/// Rows of `heads` heads, `columns` numbers each: row `p * half + i` of a head goes to `2 i + p`.
pub fn permute(values: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    let rows = values.len() / columns;
    let head = rows / heads;
    for h in 0..heads {
        for row in 0..head {
            let from = h * head + row % 2 * (head / 2) + row / 2;
            out.extend_from_slice(&values[from * columns..][..columns]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_llama_cpp() {
        use Change::*;
        use Family::*;
        let cases = [
            (Llama, "model.embed_tokens.weight", Some(("token_embd.weight", None))),
            (Llama, "lm_head.weight", Some(("output.weight", None))),
            (Llama, "model.layers.11.self_attn.q_proj.weight", Some(("blk.11.attn_q.weight", PermuteQuery))),
            (Llama, "model.layers.0.self_attn.k_proj.bias", Some(("blk.0.attn_k.bias", PermuteKey))),
            (Llama, "model.layers.0.post_attention_layernorm.weight", Some(("blk.0.ffn_norm.weight", None))),
            (Llama, "model.layers.0.self_attn.rotary_emb.inv_freq", Option::None),
            (Qwen2, "model.layers.0.self_attn.q_proj.bias", Some(("blk.0.attn_q.bias", None))),
            (Qwen3, "model.layers.0.self_attn.k_norm.weight", Some(("blk.0.attn_k_norm.weight", None))),
            (Lfm2, "model.embedding_norm.weight", Some(("token_embd_norm.weight", None))),
            (Lfm2, "model.layers.0.conv.conv.weight", Some(("blk.0.shortconv.conv.weight", None))),
            (Lfm2, "model.layers.2.self_attn.out_proj.weight", Some(("blk.2.attn_output.weight", None))),
            (Gemma3, "model.language_model.norm.weight", Some(("output_norm.weight", PlusOne))),
            (
                Gemma3,
                "language_model.model.layers.1.post_attention_layernorm.weight",
                Some(("blk.1.post_attention_norm.weight", PlusOne)),
            ),
            (
                Gemma3,
                "model.layers.1.pre_feedforward_layernorm.weight",
                Some(("blk.1.ffn_norm.weight", PlusOne)),
            ),
            (Gemma3, "model.vision_tower.vision_model.embeddings.weight", Option::None),
        ];
        for (family, name, expected) in cases {
            let found = target(family, name).unwrap();
            assert_eq!(found.as_ref().map(|t| (t.name.as_str(), t.change)), expected, "{family:?} {name}");
        }
        for (family, name) in [
            (Llama, "model.layers.0.block_sparse_moe.gate.weight"),
            (Llama, "model.layers.x.mlp.up_proj.weight"),
            (Llama, "model.layers.0.mlp.up_proj.qweight"),
            (Lfm2, "model.norm.weight"),
        ] {
            assert!(matches!(target(family, name), Err(Error::UnsupportedModel { .. })), "{name}");
        }
    }

    #[test]
    fn halves_become_pairs() {
        // Two heads of four rows and one column.
        let rows = [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0];
        assert_eq!(permute(&rows, 2, 1), [0.0, 2.0, 1.0, 3.0, 10.0, 12.0, 11.0, 13.0]);
        assert_eq!(permute(&rows, 1, 2), [0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]);
    }
}
