// y[t][row_begin + r] = dot(weights[r], x[t]) (+ bias[row_begin + r]), one invocation ROWS rows and TILE tokens.
// A token's sum runs over the columns in order, whatever else is in the batch.
#import "common/weights.wgsl"
// Tokens of an invocation: 1 for decoding; 4 for a prefill, which reuses each weight.
#const TILE: u32 in 1, 4

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

// Rows of an invocation, one in each of as many tiles.
const ROWS: u32 = 4u;

// Element k of the tokens that start at these elements of x.
fn inputs(starts: vec4<u32>, k: u32) -> vec4<f32> {
    if TILE == 1u {
        return vec4<f32>(x[starts.x + k], 0.0, 0.0, 0.0);
    }
    return vec4<f32>(x[starts.x + k], x[starts.y + k], x[starts.z + k], x[starts.w + k]);
}

fn write(row: u32, first: u32, sums: vec4<f32>) {
    if row >= params.rows {
        return;
    }
    let at = params.row_begin + row;
    var offset = 0.0;
    if params.has_bias == 1u {
        offset = bias[at];
    }
    for (var t = 0u; t < TILE; t++) {
        if first + t < params.tokens {
            y[(first + t) * params.stride + at] = sums[t] + offset;
        }
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Rows and tokens beyond the last repeat it; their sums are not written.
    let row = group.x * ROWS * ROW_TILE + lane;
    let rows = row + vec4<u32>(0u, 1u, 2u, 3u) * ROW_TILE;
    let read = min(rows, vec4<u32>(params.rows - 1u));
    let w = vec4<u32>(
        weight_at(read.x, 0u, params.cols),
        weight_at(read.y, 0u, params.cols),
        weight_at(read.z, 0u, params.cols),
        weight_at(read.w, 0u, params.cols),
    );
    let first = group.y * TILE;
    let starts = min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.tokens - 1u)) * params.cols;
    var a = vec4<f32>();
    var b = vec4<f32>();
    var c = vec4<f32>();
    var d = vec4<f32>();
    for (var k = 0u; k < params.cols; k++) {
        let input = inputs(starts, k);
        let at = w + k * ROW_TILE;
        a += weights[at.x] * input;
        b += weights[at.y] * input;
        c += weights[at.z] * input;
        d += weights[at.w] * input;
    }
    write(rows.x, first, a);
    write(rows.y, first, b);
    write(rows.z, first, c);
    write(rows.w, first, d);
}
