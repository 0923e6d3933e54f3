// y[t][r] = dot(weights[r], x[t]) for few tokens, in integers: the activations are those of `quantise`, the numbers
// of the weights bytes. A subgroup takes 2 * {PAIRS} rows and {TOKENS} tokens, each of its lanes some groups of their
// columns. Only the sum over the groups of a row is taken in floats.
#import "common/grid.wgsl"
#import "common/product.wgsl"
#import "common/bytes.wgsl"
#import "common/bytes_sum.wgsl"
#requires subgroups

// Of each token: `[vector][group]`, as `quantise` says.
@group(0) @binding(3) var<storage, read> x: array<vec4<u32>>;

const LANES: u32 = 128u;

fn vector_at(at: u32, vector: u32) -> vec4<u32> {
    return x[at + vector * params.groups];
}

fn scale_at(at: u32) -> f32 {
    return bitcast<f32>(x[at + 6u * params.groups].x);
}

fn sums_at(at: u32) -> vec2<i32> {
    return bitcast<vec2<i32>>(x[at + 6u * params.groups].yz);
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
            let r{u}_{p}_{e} = read_group(w{p}_{e} + c{u});
#end
#end
#end
#for u in 0..{ROUNDS}
#for p in 0..{PAIRS}
#for e in 0..2
            let q{u}_{p}_{e} = bytes_of(r{u}_{p}_{e}, w{p}_{e} + c{u});
#end
#end
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
                let q = bytes_of(read_group(w{p}_{e} + c), w{p}_{e} + c);
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
