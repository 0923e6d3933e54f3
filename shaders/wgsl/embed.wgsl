// h[t] = weights[id of t] * scale, for the ids whose row lies in this piece of the table. An id with its top bit
// set is the place of a token that the device has chosen.
#import "common/grid.wgsl"
#import "common/facts.wgsl"
#import "common/format.wgsl"

struct EmbedParams {
    tokens: u32,
    groups: u32,
    // Rows of the whole table; larger ids read the last row.
    vocab: u32,
    // Rows of this piece.
    row_begin: u32,
    row_end: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: EmbedParams;
@group(0) @binding(1) var<storage, read> facts: array<u32>;
@group(0) @binding(2) var<storage, read> chosen: array<u32>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;
@group(0) @binding(5) var<storage, read_write> h: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 64u + lane;
    if i >= params.tokens * params.groups {
        return;
    }
    var id = facts[facts[FACTS_IDS] + i / params.groups];
    if id >= 0x80000000u {
        id = chosen[id & 0x7fffffffu];
    }
    id = min(id, params.vocab - 1u);
    if id < params.row_begin || id >= params.row_end {
        return;
    }
    let g = (id - params.row_begin) * params.groups + i % params.groups;
    let q = load(g);
#for k in 0..4
    h[8u * i + {k}u] = (first_half(q, g, {k}u) * q.scale.x + q.scale.y) * params.scale;
    h[8u * i + 4u + {k}u] = (second_half(q, g, {k}u) * q.scale.z + q.scale.w) * params.scale;
#end
}
