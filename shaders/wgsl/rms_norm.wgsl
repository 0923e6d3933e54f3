// y[r] = x[r] * rsqrt(mean(x[r]^2) + eps) * weight, one workgroup a row; with ADD that is added to y.
#import "common/grid.wgsl"
#const ADD: bool in false, true

struct RmsNormParams {
    rows: u32,
    cols: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: RmsNormParams;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

const LANES: u32 = 128u;
var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(128)
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
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    let factor = 1.0 / sqrt(partial[0] / f32(params.cols) + params.eps);
    for (var i = lane; i < params.cols; i += LANES) {
        let value = x[base + i] * factor * weight[i];
        if ADD {
            y[base + i] += value;
        } else {
            y[base + i] = value;
        }
    }
}
