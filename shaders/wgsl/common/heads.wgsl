// Attention's parameters, and where keys and values lie. A page of a layer: K [kv_heads][PAGE_TOKENS][head_dim],
// then V likewise. A row of qkv: query heads, key heads, value heads.
#import "common/facts.wgsl"
#const HEAD_DIM: u32 in 32, 64, 80, 96, 128, 256

struct AttentionParams {
    heads: u32,
    kv_heads: u32,
    // Tokens seen, the current one included; 0 sees all.
    window: u32,
    scale: f32,
    // Rotated pairs of a head: (i, i + pairs) with `halves`, otherwise (2i, 2i + 1).
    pairs: u32,
    halves: u32,
    // Set of frequencies.
    angles: u32,
    // 1: query, key heads are normed first.
    q_norm: u32,
    k_norm: u32,
    q_eps: f32,
    k_eps: f32,
    // Of one new token: parts of its pages at most, and pages that are not worth cutting.
    parts: u32,
    alone: u32,
}

// Vectors of a head.
const WIDTH: u32 = HEAD_DIM / 4u;

// First vector of a page's keys of a head.
fn keys_at(page: u32, kv_head: u32) -> u32 {
    return (page * 2u * params.kv_heads + kv_head) * PAGE_TOKENS * WIDTH;
}

// Vectors from a key to its value.
fn to_values() -> u32 {
    return params.kv_heads * PAGE_TOKENS * WIDTH;
}

// First position that `position` sees.
fn begin_of(position: u32) -> u32 {
    if params.window > 0u && position + 1u > params.window {
        return position + 1u - params.window;
    }
    return 0u;
}

// The two elements of a head that turn together in place `i` of HEAD_DIM / 2; those after the pairs do not turn.
fn pair_at(i: u32) -> vec2<u32> {
    if params.halves == 1u && i < params.pairs {
        return vec2<u32>(i, i + params.pairs);
    }
    return vec2<u32>(2u * i, 2u * i + 1u);
}
