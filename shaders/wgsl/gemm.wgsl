// y[t][r] = dot(weights[r], x[t]) for many tokens: a workgroup takes a tile of 128 rows and 64 tokens and walks over
// the columns 16 at a time, weights unpacked into workgroup memory; a lane has 8 rows and 4 tokens.
// A sum runs over the columns in order, whatever else is in the batch.
#import "common/product.wgsl"

// [token][groups * 32]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const ROWS: u32 = 128u;
const TOKENS: u32 = 64u;
// [column][rows / 4], and [column][tokens / 4] with a gap that spreads the banks.
const X_ROW: u32 = 17u;
var<workgroup> tile_w: array<vec4<f32>, 512>;
var<workgroup> tile_x: array<vec4<f32>, 272>;

fn keep_w(row: u32, column: u32, v: vec4<f32>) {
#for i in 0..4
    tile_w[(column + {i}u) * 32u + row / 4u][row % 4u] = v[{i}];
#end
}

fn keep_x(token: u32, column: u32, v: vec4<f32>) {
#for i in 0..4
    tile_x[(column + {i}u) * X_ROW + token / 4u][token % 4u] = v[{i}];
#end
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // What a lane brings: 8 of 16 weights of a row, 4 of 16 activations of a token. Rows and tokens beyond the last
    // repeat it; their sums are not written.
    let row = lane % ROWS;
    let side = lane / ROWS;
    let w = min(group.x * ROWS + row, params.rows - 1u) * params.groups;
    let token = lane / 4u;
    let quarter = lane % 4u;
    let source = min(group.y * TOKENS + token, params.tokens - 1u) * params.groups * 8u + quarter;
    // What it sums.
    let tx = lane % 16u;
    let ty = lane / 16u;
#for t in 0..4
    var a{t} = vec4<f32>();
    var b{t} = vec4<f32>();
#end
    for (var g = 0u; g < params.groups; g++) {
        let q = load(w + g);
#for half in 0..2
        {
            workgroupBarrier();
            keep_x(token, 4u * quarter, x[source + 8u * g + 4u * {half}u]);
#for k in 0..2
            {
                var v: vec4<f32>;
                if {half}u == 0u {
                    v = first_half(q, w + g, 2u * side + {k}u);
                    v = fma(v, vec4<f32>(q.scale.x), vec4<f32>(q.scale.y));
                } else {
                    v = second_half(q, w + g, 2u * side + {k}u);
                    v = fma(v, vec4<f32>(q.scale.z), vec4<f32>(q.scale.w));
                }
                keep_w(row, 8u * side + 4u * {k}u, v);
            }
#end
            workgroupBarrier();
            for (var k = 0u; k < 16u; k++) {
                let u = tile_w[k * 32u + 2u * tx];
                let v = tile_w[k * 32u + 2u * tx + 1u];
                let t = tile_x[k * X_ROW + ty];
#for t in 0..4
                a{t} = fma(u, vec4<f32>(t[{t}]), a{t});
                b{t} = fma(v, vec4<f32>(t[{t}]), b{t});
#end
            }
        }
#end
    }
    let gated = params.mode == SILU || params.mode == GELU;
#for t in 0..4
    {
        let at = group.y * TOKENS + 4u * ty + {t}u;
        let first = group.x * ROWS + 8u * tx;
        if at < params.tokens {
            if gated {
#for i in 0..2
                if first + 2u * {i}u < params.rows {
                    put_gated(at, first + 2u * {i}u, a{t}[2 * {i}], a{t}[2 * {i} + 1]);
                }
                if first + 4u + 2u * {i}u < params.rows {
                    put_gated(at, first + 4u + 2u * {i}u, b{t}[2 * {i}], b{t}[2 * {i} + 1]);
                }
#end
            } else {
#for i in 0..4
                if first + {i}u < params.rows {
                    put(at, first + {i}u, a{t}[{i}]);
                }
                if first + 4u + {i}u < params.rows {
                    put(at, first + 4u + {i}u, b{t}[{i}]);
                }
#end
            }
        }
    }
#end
}
