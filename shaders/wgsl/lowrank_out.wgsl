// y[first + t][offset + each * r] += factor * dot(column r of b, low[t]): the second half of a low-rank update.
struct LowrankOutParams {
    // First token that the update is for.
    first: u32,
    rows: u32,
    rank: u32,
    // Elements of a row of y; where the matrix's first output is, and from one to the next.
    stride: u32,
    offset: u32,
    each: u32,
    factor: f32,
}

@group(0) @binding(0) var<uniform> params: LowrankOutParams;
// [rank][rows]
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read> low: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x * 64u + lane;
    if row >= params.rows {
        return;
    }
    var sum = 0.0;
    for (var k = 0u; k < params.rank; k++) {
        sum += b[k * params.rows + row] * low[group.y * params.rank + k];
    }
    y[(params.first + group.y) * params.stride + params.offset + params.each * row] += params.factor * sum;
}
