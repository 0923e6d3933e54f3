// Causal grouped-query attention of many tokens over paged keys and values that are all there; one workgroup a query
// head and a tile of a sequence's consecutive tokens. Keys are taken in chunks that start at multiples of KEYS, so
// that a token's sums depend only on positions, never on where pages lie or how the sequence was cut into tiles.
#import "common/heads.wgsl"

@group(0) @binding(0) var<uniform> params: AttentionParams;
@group(0) @binding(1) var<storage, read> facts: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> pages: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;

const LANES: u32 = 128u;
// Tokens of a tile at most, and keys of a chunk.
const QUERIES: u32 = select(8u, 4u, HEAD_DIM > 128u);
const KEYS: u32 = select(16u, 8u, HEAD_DIM > 128u);
// Lanes of a token.
const TEAM: u32 = LANES / QUERIES;
var<workgroup> query: array<vec4<f32>, QUERIES * WIDTH>;
var<workgroup> tile: array<vec4<f32>, KEYS * WIDTH>;
var<workgroup> scores: array<f32, QUERIES * KEYS>;
const LOWEST: f32 = -3.0e38;

// Keys of a chunk, or with `offset` its values; zeros where there are none yet.
fn fetch(lane: u32, table: u32, chunk: u32, end: u32, kv_head: u32, offset: u32) {
    for (var i = lane; i < KEYS * WIDTH; i += LANES) {
        let position = chunk + i / WIDTH;
        var v = vec4<f32>();
        if position < end {
            let at = keys_at(page_of(table, position), kv_head) + position % PAGE_TOKENS * WIDTH + i % WIDTH;
            v = pages[at + offset];
        }
        tile[i] = v;
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let kv_head = head / (params.heads / params.kv_heads);
    let place = facts[FACTS_TILES] + 2u * group.y;
    let first = facts[place];
    let count = facts[place + 1u];
    let token = token_at(first);
    let row = (params.heads + 2u * params.kv_heads) * WIDTH;
    for (var i = lane; i < count * WIDTH; i += LANES) {
        query[i] = qkv[(first + i / WIDTH) * row + head * WIDTH + i % WIDTH];
    }
    let mine = lane / TEAM;
    let member = lane % TEAM;
    let position = token.position + mine;
    let begin = begin_of(position);
    let end = token.position + count;
    var best = LOWEST;
    var sum = 0.0;
#for o in 0..2
    var acc{o} = vec4<f32>();
#end
    for (var chunk = begin_of(token.position) / KEYS * KEYS; chunk < end; chunk += KEYS) {
        workgroupBarrier();
        fetch(lane, token.table, chunk, end, kv_head, 0u);
        workgroupBarrier();
        if member < KEYS && mine < count {
            var score = LOWEST;
            let key = chunk + member;
            if key >= begin && key <= position {
                score = 0.0;
                for (var i = 0u; i < WIDTH; i++) {
                    score += dot(query[mine * WIDTH + i], tile[member * WIDTH + i]);
                }
                score *= params.scale;
            }
            scores[mine * KEYS + member] = score;
        }
        workgroupBarrier();
        fetch(lane, token.table, chunk, end, kv_head, to_values());
        workgroupBarrier();
        if mine < count {
            var top = best;
            for (var k = 0u; k < KEYS; k++) {
                top = max(top, scores[mine * KEYS + k]);
            }
            let shrink = exp(max(best - top, -80.0));
            sum *= shrink;
#for o in 0..2
            acc{o} *= shrink;
#end
            for (var k = 0u; k < KEYS; k++) {
                let score = scores[mine * KEYS + k];
                if score > LOWEST {
                    let weight = exp(max(score - top, -100.0));
                    sum += weight;
#for o in 0..2
                    if member + {o}u * TEAM < WIDTH {
                        acc{o} += weight * tile[k * WIDTH + member + {o}u * TEAM];
                    }
#end
                }
            }
            best = top;
        }
    }
    if mine < count {
#for o in 0..2
        if member + {o}u * TEAM < WIDTH {
            y[((first + mine) * params.heads + head) * WIDTH + member + {o}u * TEAM] = acc{o} / sum;
        }
#end
    }
}
