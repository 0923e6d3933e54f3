use super::rope_append;
use crate::{AttentionParams, Facts, Token};

/// Where the key of a position of a token's sequence lies.
pub(super) fn key_at(
    page_tokens: usize,
    head_dim: usize,
    params: &AttentionParams,
    facts: &Facts,
    token: &Token,
    position: usize,
    kv_head: usize,
) -> usize {
    let page = facts.table[token.table as usize + position / page_tokens] as usize;
    let row = (page * 2 * params.kv_heads as usize + kv_head) * page_tokens + position % page_tokens;
    row * head_dim
}

/// Causal grouped-query attention over paged keys and values, with an exact softmax in f64. `qkv:
/// [tokens][heads + 2 kv_heads][head_dim]`, of which queries are read; `y: [tokens][heads][head_dim]`. `page_tokens`
/// and `head_dim` are the kernel's constants.
pub fn attention(
    page_tokens: usize,
    head_dim: usize,
    params: &AttentionParams,
    facts: &Facts,
    qkv: &[f32],
    pages: &[f32],
    y: &mut [f32],
) {
    let (heads, kv_heads) = (params.heads as usize, params.kv_heads as usize);
    let to_values = kv_heads * page_tokens * head_dim;
    for (t, token) in facts.tokens.iter().enumerate() {
        let end = token.position as usize + 1;
        let begin = if params.window == 0 { 0 } else { end.saturating_sub(params.window as usize) };
        for head in 0..heads {
            let key = |p| key_at(page_tokens, head_dim, params, facts, token, p, head / (heads / kv_heads));
            let q = &qkv[(t * (heads + 2 * kv_heads) + head) * head_dim..][..head_dim];
            let scores: Vec<f64> = (begin..end)
                .map(|p| {
                    let k = &pages[key(p)..][..head_dim];
                    let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                    dot * f64::from(params.scale)
                })
                .collect();
            let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - best).exp()).sum();
            for d in 0..head_dim {
                let sum: f64 = (begin..end)
                    .map(|p| (scores[p - begin] - best).exp() * f64::from(pages[key(p) + to_values + d]))
                    .sum();
                y[(t * heads + head) * head_dim + d] = (sum / total) as f32;
            }
        }
    }
}

/// One new token of each sequence: `rope_append`, then `attention`, whose result it is once all parts are together.
#[allow(clippy::too_many_arguments)]
pub fn attention_step(
    page_tokens: usize,
    head_dim: usize,
    params: &AttentionParams,
    facts: &Facts,
    qkv: &[f32],
    q_norm: &[f32],
    k_norm: &[f32],
    pages: &mut [f32],
    y: &mut [f32],
) {
    let mut qkv = qkv.to_vec();
    rope_append(page_tokens, head_dim, params, facts, q_norm, k_norm, &mut qkv, pages);
    attention(page_tokens, head_dim, params, facts, &qkv, pages, y);
}
