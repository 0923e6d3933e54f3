use crate::{KvAppendParams, Token};

/// Writes `k`, `v: [tokens][kv_heads][head_dim]` into pages of `K [kv_heads][page_tokens][head_dim]`, then V.
pub fn kv_append(
    page_tokens: usize,
    params: &KvAppendParams,
    tokens: &[Token],
    table: &[u32],
    k: &[f32],
    v: &[f32],
    pages: &mut [f32],
) {
    let (kv_heads, head_dim) = (params.kv_heads as usize, params.head_dim as usize);
    let half = kv_heads * page_tokens * head_dim;
    for (t, token) in tokens.iter().take(params.tokens as usize).enumerate() {
        let position = token.position as usize;
        let page = table[token.table as usize + position / page_tokens] as usize;
        for head in 0..kv_heads {
            let to = page * 2 * half + (head * page_tokens + position % page_tokens) * head_dim;
            let at = (t * kv_heads + head) * head_dim;
            pages[to..to + head_dim].copy_from_slice(&k[at..at + head_dim]);
            pages[to + half..to + half + head_dim].copy_from_slice(&v[at..at + head_dim]);
        }
    }
}
