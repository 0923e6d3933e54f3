// y[t][r] = dot(weights[r], x[t]) for few tokens, in integers: the activations are those of `quantise`, the numbers
// of the weights bytes. A subgroup takes 2 * {PAIRS} rows and {TOKENS} tokens, each of its lanes some groups of their
// columns. Only the sum over the groups of a row is taken in floats.
#import "common/grid.wgsl"
#import "common/product.wgsl"
#import "common/bytes.wgsl"
#requires subgroups

// Of each token: `[vector][group]`, as `quantise` says.
@group(0) @binding(3) var<storage, read> x: array<vec4<u32>>;

const LANES: u32 = 128u;

fn dots(w: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}

// (factor, value) of a group whose activations begin at `at`; the product of the two counts.
fn group_sum(q: Bytes, at: u32) -> vec2<f32> {
    let mark = x[at + 6u * params.groups];
    let scale = bitcast<f32>(mark.x);
    let sums = bitcast<vec2<i32>>(mark.yz);
    let top_a = dots(q.first, x[at]);
    let top_b = dots(q.second, x[at + params.groups]);
    let mid_a = dots(q.first, x[at + 2u * params.groups]);
    let mid_b = dots(q.second, x[at + 3u * params.groups]);
    let low_a = dots(q.first, x[at + 4u * params.groups]);
    let low_b = dots(q.second, x[at + 5u * params.groups]);
    if FORMAT == Q6_K {
        let a = f32((top_a << 14u) + (mid_a << 7u) + low_a - MIDDLE * sums.x);
        let b = f32((top_b << 14u) + (mid_b << 7u) + low_b - MIDDLE * sums.y);
        return vec2<f32>(scale, fma(q.scale.x, a, q.scale.z * b));
    }
    if FORMAT == Q8_0 {
        // 32 products of numbers of 8 and 22 bits are too large for one integer.
        let rest = f32(((mid_a + mid_b) << 7u) + low_a + low_b);
        return vec2<f32>(q.scale.x, scale * fma(f32(top_a + top_b), 16384.0, rest));
    }
    let sum = ((top_a + top_b) << 14u) + ((mid_a + mid_b) << 7u) + low_a + low_b;
    if FORMAT == Q4_0 || FORMAT == Q5_0 {
        return vec2<f32>(q.scale.x, scale * f32(sum - MIDDLE * (sums.x + sums.y)));
    }
    return vec2<f32>(scale, fma(q.scale.x, f32(sum), q.scale.y * f32(sums.x + sums.y)));
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let last = params.rows - 1u;
    let first = group.z * {TOKENS}u;
    // There may be more rows than the host thought that the subgroups take.
    let step = groups.x * groups.y * subgroups * 2u * {PAIRS}u;
    for (var row = (flat_group(group, groups) * subgroups + subgroup) * 2u * {PAIRS}u; row < params.rows; row += step) {
#for p in 0..{PAIRS}
#for e in 0..2
        let w{p}_{e} = min(row + 2u * {p}u + {e}u, last) * params.groups;
#for t in 0..{TOKENS}
        var s{p}_{e}_{t} = 0.0;
#end
#end
#end
#for t in 0..{TOKENS}
        let x{t} = min(first + {t}u, params.tokens - 1u) * 7u * params.groups;
#end
        var c = lane;
        // Several at a time, so that their reads are under way together.
        for (; c + ({ROUNDS}u - 1u) * size < params.groups; c += {ROUNDS}u * size) {
#for u in 0..{ROUNDS}
            let c{u} = c + {u}u * size;
#for p in 0..{PAIRS}
#for e in 0..2
            let q{u}_{p}_{e} = load_bytes(w{p}_{e} + c{u});
#end
#end
#end
#for u in 0..{ROUNDS}
#for t in 0..{TOKENS}
#for p in 0..{PAIRS}
#for e in 0..2
            {
                let v = group_sum(q{u}_{p}_{e}, x{t} + c{u});
                s{p}_{e}_{t} = fma(v.x, v.y, s{p}_{e}_{t});
            }
#end
#end
#end
#end
        }
        for (; c < params.groups; c += size) {
#for p in 0..{PAIRS}
#for e in 0..2
            {
                let q = load_bytes(w{p}_{e} + c);
#for t in 0..{TOKENS}
                {
                    let v = group_sum(q, x{t} + c);
                    s{p}_{e}_{t} = fma(v.x, v.y, s{p}_{e}_{t});
                }
#end
            }
#end
#end
        }
        let gated = params.mode == SILU || params.mode == GELU;
#for t in 0..{TOKENS}
#for p in 0..{PAIRS}
#for e in 0..2
        s{p}_{e}_{t} = subgroupAdd(s{p}_{e}_{t});
#end
#end
        if lane == {t}u && first + {t}u < params.tokens {
#for p in 0..{PAIRS}
            if gated {
                if row + 2u * {p}u < params.rows {
                    put_gated(first + {t}u, row + 2u * {p}u, s{p}_0_{t}, s{p}_1_{t});
                }
            } else {
#for e in 0..2
                if row + 2u * {p}u + {e}u < params.rows {
                    put(first + {t}u, row + 2u * {p}u + {e}u, s{p}_{e}_{t});
                }
#end
            }
#end
        }
#end
    }
}
