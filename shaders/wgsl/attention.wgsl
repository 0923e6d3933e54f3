// Causal grouped-query attention over paged keys and values, one workgroup a token and query head.
// Keys are taken in chunks that start at multiples of LANES, so that the order of every sum depends only on
// positions, never on where pages lie or how the sequence was cut into batches.
#import "common/token.wgsl"
#const PAGE_TOKENS: u32 in 32
#const HEAD_DIM: u32 in 32, 64, 80, 96, 128, 256

struct AttentionParams {
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    // Tokens seen, the current one included; 0 sees all.
    window: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: AttentionParams;
@group(0) @binding(1) var<storage, read> tokens: array<Token>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(4) var<storage, read> pages: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

const LANES: u32 = 64u;
// Output elements of a lane.
const OWNED: u32 = (HEAD_DIM + LANES - 1u) / LANES;
var<workgroup> query: array<f32, HEAD_DIM>;
var<workgroup> scores: array<f32, LANES>;
var<workgroup> weights: array<f32, LANES>;

// First element of a position's key in this kv head.
fn key_at(first: u32, position: u32, head: u32) -> u32 {
    let page = table[first + position / PAGE_TOKENS];
    let row = (page * 2u * params.kv_heads + head) * PAGE_TOKENS + position % PAGE_TOKENS;
    return row * HEAD_DIM;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let token = tokens[group.y];
    let kv_head = head / (params.heads / params.kv_heads);
    let values = params.kv_heads * PAGE_TOKENS * HEAD_DIM;
    let at = (group.y * params.heads + head) * HEAD_DIM;
    for (var d = lane; d < HEAD_DIM; d += LANES) {
        query[d] = q[at + d];
    }
    workgroupBarrier();

    let end = token.position + 1u;
    var begin = 0u;
    if params.window > 0u && end > params.window {
        begin = end - params.window;
    }
    var best = -3.0e38;
    var total = 0.0;
    var sum: array<f32, OWNED>;
    for (var chunk = begin / LANES * LANES; chunk < end; chunk += LANES) {
        let position = chunk + lane;
        var score = -3.0e38;
        if position >= begin && position < end {
            let key = key_at(token.table, position, kv_head);
            score = 0.0;
            for (var d = 0u; d < HEAD_DIM; d++) {
                score += query[d] * pages[key + d];
            }
            score *= params.scale;
        }
        scores[lane] = score;
        workgroupBarrier();
        let low = max(begin, chunk);
        let high = min(end, chunk + LANES);
        var top = best;
        for (var p = low; p < high; p++) {
            top = max(top, scores[p - chunk]);
        }
        // Lanes whose key is not seen hold the lowest score, and nobody reads their weight.
        weights[lane] = exp(max(score - top, -100.0));
        workgroupBarrier();
        let shrink = exp(max(best - top, -80.0));
        total *= shrink;
        for (var o = 0u; o < OWNED; o++) {
            sum[o] *= shrink;
        }
        for (var p = low; p < high; p++) {
            let weight = weights[p - chunk];
            total += weight;
            let value = key_at(token.table, p, kv_head) + values;
            for (var o = 0u; o < OWNED; o++) {
                let d = lane + o * LANES;
                if d < HEAD_DIM {
                    sum[o] += weight * pages[value + d];
                }
            }
        }
        best = top;
        workgroupBarrier();
    }
    for (var o = 0u; o < OWNED; o++) {
        let d = lane + o * LANES;
        if d < HEAD_DIM {
            y[at + d] = sum[o] / total;
        }
    }
}
