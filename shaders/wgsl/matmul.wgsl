// y[t][row_begin + r] = dot(weights[r], x[t]) (+ bias[row_begin + r]), one workgroup a row and four tokens.
// A token's sum has the same order whatever else is in the batch.

struct MatmulParams {
    // Of this piece of the weight.
    rows: u32,
    cols: u32,
    tokens: u32,
    // First output row of this piece.
    row_begin: u32,
    // Elements of a row of y.
    stride: u32,
    // 1: add the bias.
    has_bias: u32,
}

@group(0) @binding(0) var<uniform> params: MatmulParams;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

const LANES: u32 = 64u;
const TILE: u32 = 4u;
var<workgroup> partial: array<vec4<f32>, LANES>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Rows fill x, then z; y counts tiles of tokens.
    let row = group.z * groups.x + group.x;
    if row >= params.rows {
        return;
    }
    let first = group.y * TILE;
    let last = params.tokens - 1u;
    let x0 = min(first, last) * params.cols;
    let x1 = min(first + 1u, last) * params.cols;
    let x2 = min(first + 2u, last) * params.cols;
    let x3 = min(first + 3u, last) * params.cols;
    let w = row * params.cols;
    var sum = vec4<f32>();
    for (var k = lane; k < params.cols; k += LANES) {
        sum += weights[w + k] * vec4<f32>(x[x0 + k], x[x1 + k], x[x2 + k], x[x3 + k]);
    }
    partial[lane] = sum;
    workgroupBarrier();
    if lane >= TILE || first + lane >= params.tokens {
        return;
    }
    var total = 0.0;
    for (var i = 0u; i < LANES; i++) {
        total += partial[i][lane];
    }
    let out = params.row_begin + row;
    if params.has_bias == 1u {
        total += bias[out];
    }
    y[(first + lane) * params.stride + out] = total;
}
