// low[t][k] = dot(a[k], x[first + t]): the first half of a low-rank update, one workgroup a product.
struct LowrankInParams {
    // First token that the update is for.
    first: u32,
    // Vectors of a row.
    width: u32,
    rank: u32,
}

@group(0) @binding(0) var<uniform> params: LowrankInParams;
// [rank][width]
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> low: array<f32>;

const LANES: u32 = 64u;
var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * params.width;
    let token = (params.first + group.y) * params.width;
    var sum = 0.0;
    for (var i = lane; i < params.width; i += LANES) {
        sum += dot(a[row + i], x[token + i]);
    }
    partial[lane] = sum;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial[lane] += partial[lane + half];
        }
        workgroupBarrier();
    }
    if lane == 0u {
        low[group.y * params.rank + group.x] = partial[0];
    }
}
