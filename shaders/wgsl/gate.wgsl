// gate = act(gate) * up, in place.
#import "common/grid.wgsl"
#import "common/math.wgsl"
#const GELU: bool in false, true

struct GateParams {
    count: u32,
}

@group(0) @binding(0) var<uniform> params: GateParams;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<storage, read_write> gate: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    if i >= params.count {
        return;
    }
    if GELU {
        gate[i] = gelu_tanh(gate[i]) * up[i];
    } else {
        gate[i] = silu(gate[i]) * up[i];
    }
}
