// The same as gemm_wide in floats of 16 bits, for the precision that is not exact: eight products at a time are summed in
// 16 bits, these sums in 32.
#requires f16
#import "common/product.wgsl"
#import "common/half.wgsl"

// [token][groups * 32]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const TILE: u32 = 128u;
const PITCH: u32 = TILE / 4u;
// [column][rows / 4], and [column][tokens / 4] in an order that spreads the banks.
var<workgroup> tile_w: array<vec4<f16>, 1024>;
var<workgroup> tile_x: array<vec4<f16>, 1024>;

fn keep_w(row: u32, column: u32, v: vec4<f16>) {
#for i in 0..4
    tile_w[(column + {i}u) * PITCH + row / 4u][row % 4u] = v[{i}];
#end
}

fn keep_x(token: u32, column: u32, v: vec4<f16>) {
    let place = (token / 4u) ^ (column / 4u);
#for i in 0..4
    tile_x[(column + {i}u) * PITCH + place][token % 4u] = v[{i}];
#end
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // What a lane brings: half a group of a row, 4 of 32 activations of 4 tokens. Rows and tokens beyond the last
    // repeat it; their sums are not written.
    let row = lane % TILE;
    let side = lane / TILE;
    let w = min(group.x * TILE + row, params.rows - 1u) * params.groups;
    let token = lane / 8u;
    let part = lane % 8u;
#for j in 0..4
    let from{j} = min(group.y * TILE + token + 32u * {j}u, params.tokens - 1u) * params.groups * 8u + part;
#end
    // What it sums.
    let tx = lane % 16u;
    let ty = lane / 16u;
#for r in 0..2
#for t in 0..2
#for i in 0..4
    var s{r}_{t}_{i} = vec4<f32>();
#end
#end
#end
    var q = load(w);
#for j in 0..4
    var x{j} = x[from{j}];
#end
    for (var g = 0u; g < params.groups; g++) {
        workgroupBarrier();
#for j in 0..4
        keep_x(token + 32u * {j}u, 4u * part, vec4<f16>(in_range(x{j})));
#end
#for k in 0..4
        if side == 0u {
            keep_w(row, 4u * {k}u, vec4<f16>(fma(first_half(q, w + g, {k}u), vec4<f32>(q.scale.x), vec4<f32>(q.scale.y))));
        } else {
            keep_w(row, 16u + 4u * {k}u, vec4<f16>(fma(second_half(q, w + g, {k}u), vec4<f32>(q.scale.z), vec4<f32>(q.scale.w))));
        }
#end
        workgroupBarrier();
        let next = min(g + 1u, params.groups - 1u);
        q = load(w + next);
#for j in 0..4
        x{j} = x[from{j} + 8u * next];
#end
        for (var eight = 0u; eight < 32u; eight += 8u) {
#for r in 0..2
#for t in 0..2
#for i in 0..4
            var h{r}_{t}_{i} = vec4<f16>();
#end
#end
#end
#for k in 0..8
            {
                let k = eight + {k}u;
                let u0 = tile_w[k * PITCH + tx];
                let u1 = tile_w[k * PITCH + 16u + tx];
                let v0 = tile_x[k * PITCH + (ty ^ (k / 4u))];
                let v1 = tile_x[k * PITCH + ((16u + ty) ^ (k / 4u))];
#for r in 0..2
#for t in 0..2
#for i in 0..4
                h{r}_{t}_{i} = fma(u{r}, vec4<f16>(v{t}[{i}]), h{r}_{t}_{i});
#end
#end
#end
            }
#end
#for r in 0..2
#for t in 0..2
#for i in 0..4
            s{r}_{t}_{i} += vec4<f32>(h{r}_{t}_{i});
#end
#end
#end
        }
    }
    let gated = params.mode == SILU || params.mode == GELU;
#for t in 0..2
#for i in 0..4
    {
        let at = group.y * TILE + 64u * {t}u + 4u * ty + {i}u;
        if at < params.tokens {
#for r in 0..2
            {
                let sum = s{r}_{t}_{i} * (1.0 / X_SCALE);
                let first = group.x * TILE + 64u * {r}u + 4u * tx;
                if gated {
                    if first < params.rows {
                        put_gated(at, first, sum.x, sum.y);
                    }
                    if first + 2u < params.rows {
                        put_gated(at, first + 2u, sum.z, sum.w);
                    }
                } else {
#for e in 0..4
                    if first + {e}u < params.rows {
                        put(at, first + {e}u, sum[{e}]);
                    }
#end
                }
            }
#end
        }
    }
#end
#end
}
