// y[r] = x[r] * rsqrt(mean(x[r]^2) + eps) * weight, one workgroup a row.
#import "common/grid.wgsl"

struct RmsNormParams {
    rows: u32,
    cols: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: RmsNormParams;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

const LANES: u32 = 64u;
var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= params.rows {
        return;
    }
    let base = row * params.cols;
    var sum = 0.0;
    for (var i = lane; i < params.cols; i += LANES) {
        sum += x[base + i] * x[base + i];
    }
    partial[lane] = sum;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < LANES; i++) {
        total += partial[i];
    }
    let factor = 1.0 / sqrt(total / f32(params.cols) + params.eps);
    for (var i = lane; i < params.cols; i += LANES) {
        y[base + i] = x[base + i] * factor * weight[i];
    }
}
