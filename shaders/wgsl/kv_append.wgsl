// Writes the keys and values of new tokens into their pages.
// A page of a layer: K [kv_heads][PAGE_TOKENS][head_dim], then V likewise.
#import "common/grid.wgsl"
#import "common/token.wgsl"
#const PAGE_TOKENS: u32 in 32

struct KvAppendParams {
    tokens: u32,
    kv_heads: u32,
    head_dim: u32,
}

@group(0) @binding(0) var<uniform> params: KvAppendParams;
@group(0) @binding(1) var<storage, read> tokens: array<Token>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read> k: array<f32>;
@group(0) @binding(4) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read_write> pages: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    let width = params.kv_heads * params.head_dim;
    if i >= params.tokens * width {
        return;
    }
    let token = tokens[i / width];
    let head = i % width / params.head_dim;
    let page = table[token.table + token.position / PAGE_TOKENS];
    let half = width * PAGE_TOKENS;
    let row = head * PAGE_TOKENS + token.position % PAGE_TOKENS;
    let to = page * 2u * half + row * params.head_dim + i % params.head_dim;
    pages[to] = k[i];
    pages[to + half] = v[i];
}
