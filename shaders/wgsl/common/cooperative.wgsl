// Products with many tokens through products of matrices of 16-bit floats, each by a subgroup of 32 and summed in float32:
// a workgroup takes {ROWS} rows and {TOKENS} tokens and walks over the columns 32 at a time; {ACROSS} of its subgroups
// share the rows, each has {HIGH} * 16 rows and {WIDE} * 16 tokens.
//
// ROUNDED: numbers are rounded to 16 bits. SPLIT: each is a sum of two of 16 bits, of which three products are taken (the
// fourth is below what float32 keeps). The hardware cuts where it adds, so only the products of 32 columns are summed
// there; these sums are added with rounding. TURNS: two tiles are filled by turns, so that nobody waits for those who
// read; STILL: one is. Text that is not there instead of conditions: an NVIDIA driver (580) makes kernels with the
// other's products in a branch that is never taken a third slower.
#requires subgroups
#requires f16
#requires cooperative_matrix
#import "common/product.wgsl"
#import "common/half.wgsl"

// [token][groups * 32]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const ROWS: u32 = {ROWS}u;
const TOKENS: u32 = {TOKENS}u;
const LANES: u32 = {LANES}u;
// Vectors of four columns in a row of a tile, with a gap that spreads the banks.
const PITCH: u32 = 10u;
// Small weights keep their lower half.
const W_SCALE: f32 = {W_SCALE};
// One tile, two of two steps, or two of upper and lower halves.
var<workgroup> tile_w: array<vec4<f16>, {PARTS}u * ROWS * PITCH>;
var<workgroup> tile_x: array<vec4<f16>, {PARTS}u * TOKENS * PITCH>;
// [subgroup][token][rows / 4] of one product.
var<workgroup> sums: array<vec4<f32>, LANES * 2u>;

// What 16 bits hold, cut.
fn upper_half(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) & vec4<u32>(0xffffe000u));
}

fn keep_w(at: u32, v: vec4<f32>) {
#for on in 0..{SPLIT}
    let upper = upper_half(v * W_SCALE);
    tile_w[at] = vec4<f16>(upper);
    tile_w[at + ROWS * PITCH] = vec4<f16>(v * W_SCALE - upper);
#end
#for on in 0..{ROUNDED}
    tile_w[at] = vec4<f16>(v);
#end
}

fn keep_x(at: u32, v: vec4<f32>) {
    let scaled = in_range(v);
#for on in 0..{SPLIT}
    let upper = upper_half(scaled);
    tile_x[at] = vec4<f16>(upper);
    tile_x[at + TOKENS * PITCH] = vec4<f16>(scaled - upper);
#end
#for on in 0..{ROUNDED}
    tile_x[at] = vec4<f16>(scaled);
#end
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) inner: u32,
) {
    // What a lane brings: a group of a row or half of one, 4 of 32 activations of some tokens. Rows and tokens beyond
    // the last repeat it; their sums are not written.
    let row = lane % ROWS;
    let side = lane / ROWS;
    let w = min(group.x * ROWS + row, params.rows - 1u) * params.groups;
    let token = lane / 8u;
    let part = lane % 8u;
#for j in 0..{LOADS}
    let from{j} = min(group.y * TOKENS + token + LANES / 8u * {j}u, params.tokens - 1u) * params.groups * 8u + part;
#end
    // What its subgroup sums.
    let my_row = subgroup % {ACROSS}u * ({HIGH}u * 16u);
    let my_token = subgroup / {ACROSS}u * ({WIDE}u * 16u);
#for i in 0..{HIGH}
#for j in 0..{WIDE}
    var s{i}_{j} = coop_mat16x16<f32, C>();
#end
#end
    var q = load(w);
#for j in 0..{LOADS}
    var x{j} = x[from{j}];
#end
    for (var g = 0u; g < params.groups; g++) {
#for on in 0..{TURNS}
        let turn = g % 2u;
#end
#for on in 0..{STILL}
        let turn = 0u;
        // Everybody has read the tiles.
        workgroupBarrier();
#end
        let tw = turn * ROWS * PITCH;
        let tx = turn * TOKENS * PITCH;
#for j in 0..{LOADS}
        keep_x(tx + (token + LANES / 8u * {j}u) * PITCH + part, x{j});
#end
        if LANES == ROWS || side == 0u {
#for k in 0..4
            keep_w(tw + row * PITCH + {k}u, fma(first_half(q, w + g, {k}u), vec4<f32>(q.scale.x), vec4<f32>(q.scale.y)));
#end
        }
        if LANES == ROWS || side == 1u {
#for k in 0..4
            keep_w(tw + row * PITCH + 4u + {k}u, fma(second_half(q, w + g, {k}u), vec4<f32>(q.scale.z), vec4<f32>(q.scale.w)));
#end
        }
        workgroupBarrier();
        let next = min(g + 1u, params.groups - 1u);
        q = load(w + next);
#for j in 0..{LOADS}
        x{j} = x[from{j} + 8u * next];
#end
        let aw = tw + my_row * PITCH;
        let ax = tx + my_token * PITCH;
#for on in 0..{SPLIT}
#for i in 0..{HIGH}
#for k in 0..2
        let a{i}_{k} = coopLoadT<coop_mat16x16<f16, A>>(&tile_w[aw + 16u * {i}u * PITCH + 4u * {k}u], PITCH);
        let c{i}_{k} = coopLoadT<coop_mat16x16<f16, A>>(&tile_w[aw + (ROWS + 16u * {i}u) * PITCH + 4u * {k}u], PITCH);
#end
#end
#for j in 0..{WIDE}
        {
#for k in 0..2
            let b{k} = coopLoad<coop_mat16x16<f16, B>>(&tile_x[ax + 16u * {j}u * PITCH + 4u * {k}u], PITCH);
            let d{k} = coopLoad<coop_mat16x16<f16, B>>(&tile_x[ax + (TOKENS + 16u * {j}u) * PITCH + 4u * {k}u], PITCH);
#end
#for i in 0..{HIGH}
            {
                var t = coop_mat16x16<f32, C>();
#for k in 0..2
                t = coopMultiplyAdd(c{i}_{k}, b{k}, t);
                t = coopMultiplyAdd(a{i}_{k}, d{k}, t);
#end
#for k in 0..2
                t = coopMultiplyAdd(a{i}_{k}, b{k}, t);
#end
                s{i}_{j} = s{i}_{j} + t;
            }
#end
        }
#end
#end
#for on in 0..{ROUNDED}
#for k in 0..2
        {
#for i in 0..{HIGH}
            let a{i} = coopLoadT<coop_mat16x16<f16, A>>(&tile_w[aw + 16u * {i}u * PITCH + 4u * {k}u], PITCH);
#end
#for j in 0..{WIDE}
            let b{j} = coopLoad<coop_mat16x16<f16, B>>(&tile_x[ax + 16u * {j}u * PITCH + 4u * {k}u], PITCH);
#for i in 0..{HIGH}
            s{i}_{j} = coopMultiplyAdd(a{i}, b{j}, s{i}_{j});
#end
#end
        }
#end
#end
    }
    let gated = params.mode == SILU || params.mode == GELU;
    let place = subgroup * 64u;
    let half_of = 2u * (inner / 16u);
#for i in 0..{HIGH}
#for j in 0..{WIDE}
    {
        workgroupBarrier();
        coopStore(s{i}_{j}, &sums[place], 4u);
        workgroupBarrier();
        let at = group.y * TOKENS + my_token + 16u * {j}u + inner % 16u;
        let first = group.x * ROWS + my_row + 16u * {i}u + 4u * half_of;
        let u0 = sums[place + inner % 16u * 4u + half_of] * (1.0 / (X_SCALE * W_SCALE));
        let u1 = sums[place + inner % 16u * 4u + half_of + 1u] * (1.0 / (X_SCALE * W_SCALE));
        if at < params.tokens {
#for v in 0..2
            if gated {
#for e in 0..2
                if first + 4u * {v}u + 2u * {e}u < params.rows {
                    put_gated(at, first + 4u * {v}u + 2u * {e}u, u{v}[2 * {e}], u{v}[2 * {e} + 1]);
                }
#end
            } else {
#for e in 0..4
                if first + 4u * {v}u + {e}u < params.rows {
                    put(at, first + 4u * {v}u + {e}u, u{v}[{e}]);
                }
#end
            }
#end
        }
    }
#end
#end
}
