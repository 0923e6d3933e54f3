// h[t] = weights[ids[t]] * scale, for the ids whose row lies in this piece of the table.
#import "common/grid.wgsl"
#import "common/weights.wgsl"

struct EmbedParams {
    tokens: u32,
    hidden: u32,
    // Rows of the whole table; larger ids read the last row.
    vocab: u32,
    // Rows of this piece.
    row_begin: u32,
    row_end: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: EmbedParams;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> h: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    if i >= params.tokens * params.hidden {
        return;
    }
    let id = min(ids[i / params.hidden], params.vocab - 1u);
    if id < params.row_begin || id >= params.row_end {
        return;
    }
    h[i] = weights[weight_at(id - params.row_begin, i % params.hidden, params.hidden)] * params.scale;
}
