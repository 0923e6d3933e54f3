// What the products have in common: a piece of a matrix (consecutive rows of it) times the activations of some
// tokens, and what becomes of each sum.
#import "common/format.wgsl"
#import "common/math.wgsl"

struct ProductParams {
    // Of this piece of the matrix.
    rows: u32,
    // Groups of 32 elements in a row.
    groups: u32,
    tokens: u32,
    // Row of y of this piece's first.
    row_begin: u32,
    // Elements of a row of y.
    stride: u32,
    // STORE: y = sum; ADD: y += sum; SILU, GELU: rows come in pairs, y = act(first) * second.
    mode: u32,
    // 1: add the bias.
    has_bias: u32,
    // Of the norm, where the kernel applies one to x.
    eps: f32,
}
const STORE: u32 = 0u;
const ADD: u32 = 1u;
const SILU: u32 = 2u;
const GELU: u32 = 3u;

@group(0) @binding(0) var<uniform> params: ProductParams;
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;
// Binding 3 is the kernel's: the activations as it reads them.
// Of the kernels for few tokens: [vector of a group][group].
@group(0) @binding(4) var<storage, read> norm: array<vec4<f32>>;
// By row of y.
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn mac(sum: f32, w: vec4<f32>, v: vec4<f32>) -> f32 {
    return fma(w.w, v.w, fma(w.z, v.z, fma(w.y, v.y, fma(w.x, v.x, sum))));
}

fn biased(row: u32, sum: f32) -> f32 {
    if params.has_bias == 1u {
        return sum + bias[params.row_begin + row];
    }
    return sum;
}

// `sum` of a row of this piece.
fn put(token: u32, row: u32, sum: f32) {
    let at = token * params.stride + params.row_begin + row;
    let value = biased(row, sum);
    if params.mode == ADD {
        y[at] += value;
    } else {
        y[at] = value;
    }
}

// The sums of rows `row` and `row + 1`, the first one even.
fn put_gated(token: u32, row: u32, gate: f32, up: f32) {
    let at = token * params.stride + (params.row_begin + row) / 2u;
    let g = biased(row, gate);
    let u = biased(row + 1u, up);
    if params.mode == SILU {
        y[at] = silu(g) * u;
    } else {
        y[at] = gelu_tanh(g) * u;
    }
}
