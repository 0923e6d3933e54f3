// y = act(gate) * up, where the product could not do it: of rows [gate | up], or with PAIRED of pairs of them.
#import "common/grid.wgsl"
#import "common/math.wgsl"
#const GELU: bool in false, true
#const PAIRED: bool in false, true

struct GateParams {
    tokens: u32,
    width: u32,
}

@group(0) @binding(0) var<uniform> params: GateParams;
@group(0) @binding(1) var<storage, read> both: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    if i >= params.tokens * params.width {
        return;
    }
    var at = i / params.width * 2u * params.width + i % params.width;
    var other = at + params.width;
    if PAIRED {
        at = 2u * i;
        other = at + 1u;
    }
    let gate = both[at];
    let up = both[other];
    if GELU {
        y[i] = gelu_tanh(gate) * up;
    } else {
        y[i] = silu(gate) * up;
    }
}
