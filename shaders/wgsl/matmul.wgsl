// y[t][row_begin + r] = dot(weights[r], x[t]) (+ bias[row_begin + r]), one invocation a row and TILE tokens.
// A token's sum runs over the columns in order, whatever else is in the batch.
#import "common/weights.wgsl"
// Tokens of an invocation: 1 for decoding, more reuse each weight for a prefill.
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

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x * ROW_TILE + lane;
    if row >= params.rows {
        return;
    }
    let first = group.y * TILE;
    let last = params.tokens - 1u;
    let w = weight_at(row, 0u, params.cols);
    var sum: array<f32, TILE>;
    // Tokens beyond the last repeat it; their sums are not written.
    var from_x: array<u32, TILE>;
    for (var t = 0u; t < TILE; t++) {
        from_x[t] = min(first + t, last) * params.cols;
    }
    for (var k = 0u; k < params.cols; k++) {
        let weight = weights[w + k * ROW_TILE];
        for (var t = 0u; t < TILE; t++) {
            sum[t] += weight * x[from_x[t] + k];
        }
    }
    let at = params.row_begin + row;
    for (var t = 0u; t < TILE && first + t < params.tokens; t++) {
        var total = sum[t];
        if params.has_bias == 1u {
            total += bias[at];
        }
        y[(first + t) * params.stride + at] = total;
    }
}
