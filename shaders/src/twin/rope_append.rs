use super::attention::key_at;
use crate::{AttentionParams, Facts};

/// Norms and turns the query and key heads of every token and writes keys and values into the pages. `qkv:
/// [tokens][heads + 2 kv_heads][head_dim]`; its queries are changed, its keys are not. `page_tokens` and `head_dim`
/// are the kernel's constants.
#[allow(clippy::too_many_arguments)]
pub fn rope_append(
    page_tokens: usize,
    head_dim: usize,
    params: &AttentionParams,
    facts: &Facts,
    q_norm: &[f32],
    k_norm: &[f32],
    qkv: &mut [f32],
    pages: &mut [f32],
) {
    let (heads, kv_heads) = (params.heads as usize, params.kv_heads as usize);
    for (t, token) in facts.tokens.iter().enumerate() {
        for head in 0..heads + 2 * kv_heads {
            let at = (t * (heads + 2 * kv_heads) + head) * head_dim;
            let key = |kv_head| {
                key_at(page_tokens, head_dim, params, facts, token, token.position as usize, kv_head)
            };
            if head >= heads + kv_heads {
                let to = key(head - heads - kv_heads) + kv_heads * page_tokens * head_dim;
                pages[to..to + head_dim].copy_from_slice(&qkv[at..at + head_dim]);
                continue;
            }
            let mut row = qkv[at..at + head_dim].to_vec();
            let norm = if head < heads {
                (params.q_norm, q_norm, params.q_eps)
            } else {
                (params.k_norm, k_norm, params.k_eps)
            };
            if norm.0 == 1 {
                let mean = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / head_dim as f64;
                let factor = 1.0 / (mean + f64::from(norm.2)).sqrt();
                row.iter_mut()
                    .zip(norm.1)
                    .for_each(|(x, w)| *x = (f64::from(*x) * factor * f64::from(*w)) as f32);
            }
            turn(params, &facts.angles[params.angles as usize], t, &mut row);
            if head < heads {
                qkv[at..at + head_dim].copy_from_slice(&row);
            } else {
                let to = key(head - heads);
                pages[to..to + head_dim].copy_from_slice(&row);
            }
        }
    }
}

fn turn(params: &AttentionParams, angles: &[[f32; 2]], t: usize, row: &mut [f32]) {
    let pairs = params.pairs as usize;
    for i in 0..pairs {
        let (a, b) = if params.halves == 1 { (i, i + pairs) } else { (2 * i, 2 * i + 1) };
        let [cos, sin] = angles[t * pairs + i];
        (row[a], row[b]) = (row[a] * cos - row[b] * sin, row[a] * sin + row[b] * cos);
    }
}
