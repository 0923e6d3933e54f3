// A matrix times the activations of one token, in integers: each workgroup quantises the activations (with NORM they
// are normed first) into its memory, as `quantise` does, bit by bit; a subgroup takes 2 rows at a time.
#import "common/grid.wgsl"
#import "common/product.wgsl"
#import "common/bytes.wgsl"
#import "common/bytes_sum.wgsl"
#import "common/quantise.wgsl"
#const NORM: bool in false, true
// Groups that there is memory for.
#const ROOM: u32 in 128, 256, 448

// [groups * 32]
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

const LANES: u32 = 512u;
// [vector][group]: upper bytes of the first, of the second half, middle ones, lower ones.
var<workgroup> planes: array<vec4<u32>, 6u * ROOM>;
// Of each group: bits of the scale, sum of the first half, of the second.
var<workgroup> marks: array<u32, 3u * ROOM>;
var<workgroup> partial: array<f32, 64>;

fn vector_at(at: u32, vector: u32) -> vec4<u32> {
    return planes[vector * ROOM + at];
}

fn scale_at(at: u32) -> f32 {
    return bitcast<f32>(marks[3u * at]);
}

fn sums_at(at: u32) -> vec2<i32> {
    return vec2<i32>(bitcast<i32>(marks[3u * at + 1u]), bitcast<i32>(marks[3u * at + 2u]));
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    let lane = subgroup * size + place;
    let width = 8u * params.groups;
    var factor = 1.0;
    if NORM {
        var square = 0.0;
        if lane < QUANTISE_LANES {
            for (var j = lane; j < width; j += QUANTISE_LANES) {
                let u = x[j];
                square += dot(u, u);
            }
        }
        square = subgroupAdd(square);
        if place == 0u && lane < QUANTISE_LANES {
            partial[subgroup] = square;
        }
        workgroupBarrier();
        var total = 0.0;
        for (var s = 0u; s < QUANTISE_LANES / size; s++) {
            total += partial[s];
        }
        factor = 1.0 / sqrt(total / f32(4u * width) + params.eps);
    }
    for (var begin = 0u; begin < width; begin += LANES) {
        let i = begin + lane;
        var v = vec4<f32>();
        if i < width {
            v = x[i];
            if NORM {
                v *= norm[i];
            }
        }
        let q = quantise(v);
        if i < width {
            let c = i / 8u;
            let side = i % 8u / 4u;
            planes[side * ROOM + c][i % 4u] = q.top;
            planes[(2u + side) * ROOM + c][i % 4u] = q.mid;
            planes[(4u + side) * ROOM + c][i % 4u] = q.low;
            if i % 8u == 0u {
                marks[3u * c] = bitcast<u32>(factor * q.scale);
            }
            if i % 4u == 0u {
                marks[3u * c + 1u + side] = bitcast<u32>(q.sum);
            }
        }
    }
    workgroupBarrier();
    let last = params.rows - 1u;
    let step = groups.x * groups.y * subgroups * 2u;
    for (var row = (flat_group(group, groups) * subgroups + subgroup) * 2u; row < params.rows; row += step) {
#for e in 0..2
        let w{e} = min(row + {e}u, last) * params.groups;
        var s{e} = 0.0;
#end
        var c = place;
        // Two at a time, so that their reads are under way together.
        for (; c + size < params.groups; c += 2u * size) {
#for u in 0..2
#for e in 0..2
            let q{u}_{e} = read_group(w{e} + c + {u}u * size);
#end
#end
#for u in 0..2
#for e in 0..2
            {
                let v = group_sum(bytes_of(q{u}_{e}, w{e} + c + {u}u * size), c + {u}u * size);
                s{e} = fma(v.x, v.y, s{e});
            }
#end
#end
        }
        if c < params.groups {
#for e in 0..2
            {
                let v = group_sum(bytes_of(read_group(w{e} + c), w{e} + c), c);
                s{e} = fma(v.x, v.y, s{e});
            }
#end
        }
#for e in 0..2
        s{e} = subgroupAdd(s{e});
#end
        if place == 0u {
            if params.mode == SILU || params.mode == GELU {
                put_gated(0u, row, s0, s1);
            } else {
                put(0u, row, s0);
                if row + 1u < params.rows {
                    put(0u, row + 1u, s1);
                }
            }
        }
    }
}
