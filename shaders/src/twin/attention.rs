use crate::{AttentionParams, Token};

/// Causal grouped-query attention over paged keys and values, with an exact softmax in f64. `page_tokens` and
/// `head_dim` are the kernel's constants. `q`, `y: [tokens][heads][head_dim]`.
#[allow(clippy::too_many_arguments)]
pub fn attention(
    page_tokens: usize,
    head_dim: usize,
    params: &AttentionParams,
    tokens: &[Token],
    table: &[u32],
    q: &[f32],
    pages: &[f32],
    y: &mut [f32],
) {
    let (heads, kv_heads) = (params.heads as usize, params.kv_heads as usize);
    let half = kv_heads * page_tokens * head_dim;
    for (t, token) in tokens.iter().take(params.tokens as usize).enumerate() {
        let end = token.position as usize + 1;
        let begin = if params.window == 0 { 0 } else { end.saturating_sub(params.window as usize) };
        for head in 0..heads {
            let key = |p: usize| {
                let page = table[token.table as usize + p / page_tokens] as usize;
                let row = head / (heads / kv_heads) * page_tokens + p % page_tokens;
                page * 2 * half + row * head_dim
            };
            let at = (t * heads + head) * head_dim;
            let scores: Vec<f64> = (begin..end)
                .map(|p| {
                    let dot: f64 =
                        (0..head_dim).map(|d| f64::from(q[at + d]) * f64::from(pages[key(p) + d])).sum();
                    dot * f64::from(params.scale)
                })
                .collect();
            let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - best).exp()).sum();
            for d in 0..head_dim {
                let sum: f64 = (begin..end)
                    .map(|p| (scores[p - begin] - best).exp() * f64::from(pages[key(p) + half + d]))
                    .sum();
                y[at + d] = (sum / total) as f32;
            }
        }
    }
}
