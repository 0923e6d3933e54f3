// Norms and turns the query and key heads of many tokens and writes keys and values into their pages; one workgroup a
// head of a token. Sines come from the host: the built-in ones are only defined to 2^-11, and only within [-pi, pi].
#import "common/heads.wgsl"

@group(0) @binding(0) var<uniform> params: AttentionParams;
@group(0) @binding(1) var<storage, read> facts: array<u32>;
@group(0) @binding(2) var<storage, read> q_norm: array<f32>;
@group(0) @binding(3) var<storage, read> k_norm: array<f32>;
@group(0) @binding(4) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(5) var<storage, read_write> pages: array<f32>;

const LANES: u32 = 32u;
var<workgroup> partial: array<f32, LANES>;

fn factor_of(lane: u32, at: u32, eps: f32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < HEAD_DIM; i += LANES) {
        sum += qkv[at + i] * qkv[at + i];
    }
    partial[lane] = sum;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < LANES; i++) {
        total += partial[i];
    }
    return 1.0 / sqrt(total / f32(HEAD_DIM) + eps);
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let t = group.y;
    let head = group.x;
    let at = (t * (params.heads + 2u * params.kv_heads) + head) * HEAD_DIM;
    let token = token_at(t);
    let page = page_of(token.table, token.position);
    let row = token.position % PAGE_TOKENS * HEAD_DIM;
    if head >= params.heads + params.kv_heads {
        let to = 4u * (keys_at(page, head - params.heads - params.kv_heads) + to_values()) + row;
        for (var i = lane; i < HEAD_DIM; i += LANES) {
            pages[to + i] = qkv[at + i];
        }
        return;
    }
    let is_key = head >= params.heads;
    let normed = select(params.q_norm, params.k_norm, is_key) == 1u;
    var factor = 1.0;
    if normed {
        factor = factor_of(lane, at, select(params.q_eps, params.k_eps, is_key));
    }
    for (var i = lane; i < HEAD_DIM / 2u; i += LANES) {
        let pair = pair_at(i);
        var a = qkv[at + pair.x];
        var b = qkv[at + pair.y];
        if normed {
            a *= factor;
            b *= factor;
            if is_key {
                a *= k_norm[pair.x];
                b *= k_norm[pair.y];
            } else {
                a *= q_norm[pair.x];
                b *= q_norm[pair.y];
            }
        }
        if i < params.pairs {
            let turn = angle(params.angles, t, params.pairs, i);
            let u = a;
            a = u * turn.x - b * turn.y;
            b = u * turn.y + b * turn.x;
        }
        if is_key {
            let to = 4u * keys_at(page, head - params.heads) + row;
            pages[to + pair.x] = a;
            pages[to + pair.y] = b;
        } else {
            qkv[at + pair.x] = a;
            qkv[at + pair.y] = b;
        }
    }
}
