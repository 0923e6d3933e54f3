// One new token of each sequence: norms and turns its queries and key, writes key and value into their page, and
// attends. A workgroup takes GROUP query heads of one kv head and one part of the pages that the token sees. How these
// are cut depends on the token alone, whatever else is in the batch: into at most `parts`, or not at all where they are
// few. There are enough workgroups in y for the longest sequence; several parts are put together by attention_merge.
#import "common/heads.wgsl"
// Query heads of a workgroup.
#const GROUP: u32 in 1, 2, 3, 4, 5, 6, 7, 8

@group(0) @binding(0) var<uniform> params: AttentionParams;
@group(0) @binding(1) var<storage, read> facts: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> q_norm: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> k_norm: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> pages: array<vec4<f32>>;
// One part: [token][head][head_dim]. Several: [token][head][part] of the unscaled sum, then (best, total, 0, 0).
@group(0) @binding(6) var<storage, read_write> y: array<vec4<f32>>;

const LANES: u32 = 128u;
const KEYS: u32 = PAGE_TOKENS;
// Lanes that share the walk over values: SLICES keys at a time, each WIDTH lanes.
const SLICES: u32 = LANES / WIDTH;
const ROUNDS: u32 = (KEYS + SLICES - 1u) / SLICES;
const LOWEST: f32 = -3.0e38;
var<workgroup> query: array<vec4<f32>, GROUP * WIDTH>;
var<workgroup> fresh: array<vec4<f32>, WIDTH>;
var<workgroup> factors: array<f32, GROUP + 1u>;
var<workgroup> dots: array<f32, GROUP * LANES>;
var<workgroup> scores: array<vec4<f32>, GROUP * KEYS / 4u>;
var<workgroup> chances: array<f32, GROUP * KEYS>;
// By parity of the page, so that the last ones can be read while the next are written.
var<workgroup> tops: array<f32, 2u * GROUP>;
var<workgroup> parts: array<vec4<f32>, LANES>;
var<workgroup> totals: array<f32, SLICES>;

// Norms and turns element pair `i` of head h of `query`.
fn turn_query(t: u32, h: u32, i: u32) {
    let pair = pair_at(i);
    let base = h * WIDTH;
    var a = query[base + pair.x / 4u][pair.x % 4u];
    var b = query[base + pair.y / 4u][pair.y % 4u];
    if params.q_norm == 1u {
        a *= factors[h] * q_norm[pair.x / 4u][pair.x % 4u];
        b *= factors[h] * q_norm[pair.y / 4u][pair.y % 4u];
    }
    if i < params.pairs {
        let turn = angle(params.angles, t, params.pairs, i);
        let u = a;
        a = u * turn.x - b * turn.y;
        b = u * turn.y + b * turn.x;
    }
    query[base + pair.x / 4u][pair.x % 4u] = a;
    query[base + pair.y / 4u][pair.y % 4u] = b;
}

// The same of the new key.
fn turn_key(t: u32, i: u32) {
    let pair = pair_at(i);
    var a = fresh[pair.x / 4u][pair.x % 4u];
    var b = fresh[pair.y / 4u][pair.y % 4u];
    if params.k_norm == 1u {
        a *= factors[GROUP] * k_norm[pair.x / 4u][pair.x % 4u];
        b *= factors[GROUP] * k_norm[pair.y / 4u][pair.y % 4u];
    }
    if i < params.pairs {
        let turn = angle(params.angles, t, params.pairs, i);
        let u = a;
        a = u * turn.x - b * turn.y;
        b = u * turn.y + b * turn.x;
    }
    fresh[pair.x / 4u][pair.x % 4u] = a;
    fresh[pair.y / 4u][pair.y % 4u] = b;
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let t = group.z;
    let token = token_at(t);
    // Blocks of GROUP query heads, in the order of the heads.
    let kv_head = group.x * GROUP / (params.heads / params.kv_heads);
    let row = t * (params.heads + 2u * params.kv_heads) * WIDTH;
    let end = token.position + 1u;
    let begin = begin_of(token.position);
    let first_page = begin / KEYS;
    let pages_seen = (end + KEYS - 1u) / KEYS - first_page;
    var each = (pages_seen + params.parts - 1u) / params.parts;
    if pages_seen <= params.alone {
        each = pages_seen;
    }
    let start = first_page + group.y * each;
    let to = min(start + each, first_page + pages_seen);
    let has_last = start < to && to == first_page + pages_seen;

    for (var i = lane; i < GROUP * WIDTH; i += LANES) {
        query[i] = qkv[row + group.x * GROUP * WIDTH + i];
    }
    if has_last && lane < WIDTH {
        fresh[lane] = qkv[row + (params.heads + kv_head) * WIDTH + lane];
    }
    workgroupBarrier();
    if params.q_norm == 1u && lane < GROUP {
        var sum = 0.0;
        for (var i = 0u; i < WIDTH; i++) {
            sum += dot(query[lane * WIDTH + i], query[lane * WIDTH + i]);
        }
        factors[lane] = 1.0 / sqrt(sum / f32(HEAD_DIM) + params.q_eps);
    }
    if params.k_norm == 1u && has_last && lane == GROUP {
        var sum = 0.0;
        for (var i = 0u; i < WIDTH; i++) {
            sum += dot(fresh[i], fresh[i]);
        }
        factors[GROUP] = 1.0 / sqrt(sum / f32(HEAD_DIM) + params.k_eps);
    }
    workgroupBarrier();
    for (var i = lane; i < GROUP * HEAD_DIM / 2u; i += LANES) {
        turn_query(t, i / (HEAD_DIM / 2u), i % (HEAD_DIM / 2u));
    }
    if has_last {
        for (var i = lane; i < HEAD_DIM / 2u; i += LANES) {
            turn_key(t, i);
        }
    }
    if lane < GROUP {
        tops[lane] = LOWEST;
    }
    workgroupBarrier();
    if has_last && lane < WIDTH {
        let at = keys_at(page_of(token.table, token.position), kv_head) + token.position % KEYS * WIDTH + lane;
        pages[at] = fresh[lane];
        pages[at + to_values()] = qkv[row + (params.heads + params.kv_heads + kv_head) * WIDTH + lane];
    }
    storageBarrier();
    workgroupBarrier();

    let key = lane / 4u;
    let quarter = lane % 4u;
    let slice = lane / WIDTH;
    let place = lane % WIDTH;
#for h in 0..8
    var acc{h} = vec4<f32>();
    var total{h} = 0.0;
    var best{h} = LOWEST;
#end
    var parity = 0u;
    for (var page = start; page < to; page++) {
        let keys = keys_at(page_of(token.table, page * KEYS), kv_head);
        let low = max(begin, page * KEYS) - page * KEYS;
        let high = min(end, page * KEYS + KEYS) - page * KEYS;
        let seen = key >= low && key < high;
#for h in 0..8
        var dot{h} = 0.0;
#end
        // All reads of a page are under way before the first is waited for, which a loop would not do; but for those
        // of heads beyond 128 elements.
#for j in 0..8
        var k{j} = vec4<f32>();
        if {j}u < WIDTH / 4u && seen {
            k{j} = pages[keys + key * WIDTH + 4u * {j}u + quarter];
        }
#end
#for j in 0..8
        var v{j} = vec4<f32>();
        if {j}u < ROUNDS && slice < SLICES {
            v{j} = pages[keys + to_values() + min(slice + {j}u * SLICES, KEYS - 1u) * WIDTH + place];
        }
#end
#for j in 0..8
        if {j}u < WIDTH / 4u {
#for h in 0..8
            if {h}u < GROUP {
                dot{h} += dot(k{j}, query[{h}u * WIDTH + 4u * {j}u + quarter]);
            }
#end
        }
#end
        for (var j = 8u; j < WIDTH / 4u; j++) {
            let i = 4u * j + quarter;
            var k = vec4<f32>();
            if seen {
                k = pages[keys + key * WIDTH + i];
            }
#for h in 0..8
            if {h}u < GROUP {
                dot{h} += dot(k, query[{h}u * WIDTH + i]);
            }
#end
        }
#for h in 0..8
        if {h}u < GROUP {
            dots[{h}u * LANES + lane] = dot{h};
        }
#end
        workgroupBarrier();
        for (var i = lane; i < GROUP * KEYS; i += LANES) {
            var score = LOWEST;
            let p = i % KEYS;
            if p >= low && p < high {
                score = (dots[4u * i] + dots[4u * i + 1u] + dots[4u * i + 2u] + dots[4u * i + 3u]) * params.scale;
            }
            scores[i / 4u][i % 4u] = score;
        }
        workgroupBarrier();
        for (var i = lane; i < GROUP * KEYS; i += LANES) {
            let h = i / KEYS;
            var most = scores[h * KEYS / 4u];
            for (var k = 1u; k < KEYS / 4u; k++) {
                most = max(most, scores[h * KEYS / 4u + k]);
            }
            let top = max(tops[parity * GROUP + h], max(max(most.x, most.y), max(most.z, most.w)));
            let score = scores[i / 4u][i % 4u];
            chances[i] = select(0.0, exp(max(score - top, -100.0)), score > LOWEST);
            if i % KEYS == 0u {
                tops[(1u - parity) * GROUP + h] = top;
            }
        }
        parity = 1u - parity;
        workgroupBarrier();
#for h in 0..8
        if {h}u < GROUP {
            let top = tops[parity * GROUP + {h}u];
            let shrink = exp(max(best{h} - top, -80.0));
            acc{h} *= shrink;
            total{h} *= shrink;
            best{h} = top;
        }
#end
#for j in 0..8
        if {j}u < ROUNDS && slice < SLICES {
            let p = min(slice + {j}u * SLICES, KEYS - 1u);
            let counts = slice + {j}u * SLICES == p && p >= low && p < high;
            // What no token has written may be anything.
            let v = select(vec4<f32>(), v{j}, counts);
#for h in 0..8
            if {h}u < GROUP {
                let chance = select(0.0, chances[{h}u * KEYS + p], counts);
                acc{h} += chance * v;
                total{h} += chance;
            }
#end
        }
#end
        for (var j = 8u; j < ROUNDS; j++) {
            let p = min(slice + j * SLICES, KEYS - 1u);
            let value = pages[keys + to_values() + p * WIDTH + place];
            let counts = slice + j * SLICES == p && p >= low && p < high;
            let v = select(vec4<f32>(), value, counts);
#for h in 0..8
            if {h}u < GROUP {
                let chance = select(0.0, chances[{h}u * KEYS + p], counts);
                acc{h} += chance * v;
                total{h} += chance;
            }
#end
        }
    }

    let alone = groups.y == 1u;
#for h in 0..8
    if {h}u < GROUP {
        workgroupBarrier();
        parts[lane] = acc{h};
        if slice < SLICES && place == 0u {
            totals[slice] = total{h};
        }
        workgroupBarrier();
        if lane < WIDTH {
            var sum = vec4<f32>();
            var total = 0.0;
            for (var s = 0u; s < SLICES; s++) {
                sum += parts[s * WIDTH + lane];
                total += totals[s];
            }
            let head = t * params.heads + group.x * GROUP + {h}u;
            if alone {
                y[head * WIDTH + lane] = sum / total;
            } else {
                let at = (head * groups.y + group.y) * (WIDTH + 1u);
                y[at + lane] = sum;
                if lane == 0u {
                    y[at + WIDTH] = vec4<f32>(best{h}, total, 0.0, 0.0);
                }
            }
        }
    }
#end
}
