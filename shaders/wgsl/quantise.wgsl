// Activations for the products of bytes; with NORM they are normed first.
// Of each token 7 vectors of 4 words a group, `[vector][group]`: the integers' upper bytes, of the group's first and
// of its second half, then the middle ones and the lower ones alike, and (bits of the scale, sum of the first half's
// integers, of the second's, 0).
#import "common/quantise.wgsl"
#const NORM: bool in false, true

struct QuantiseParams {
    groups: u32,
    // Of the norm.
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: QuantiseParams;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<u32>;

const LANES: u32 = QUANTISE_LANES;
var<workgroup> partial: array<f32, LANES>;

// One workgroup a token and 32 groups; eight lanes, which are of one subgroup, a group.
@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    let lane = subgroup * size + place;
    let width = 8u * params.groups;
    let begin = group.y * width;
    let i = group.x * LANES + lane;
    let valid = i < width;
    var v = vec4<f32>();
    if valid {
        v = x[begin + i];
    }
    var factor = 1.0;
    if NORM {
        var square = 0.0;
        for (var j = lane; j < width; j += LANES) {
            let u = x[begin + j];
            square += dot(u, u);
        }
        square = subgroupAdd(square);
        if place == 0u {
            partial[subgroup] = square;
        }
        if valid {
            v *= weight[i];
        }
        workgroupBarrier();
        var total = 0.0;
        for (var s = 0u; s < subgroups; s++) {
            total += partial[s];
        }
        factor = 1.0 / sqrt(total / f32(4u * width) + params.eps);
    }
    let q = quantise(v);
    let other = subgroupShuffleXor(q.sum, 4u);
    if !valid {
        return;
    }
    let c = i / 8u;
    let side = i % 8u / 4u;
    let base = group.y * 7u * params.groups;
    y[4u * (base + side * params.groups + c) + i % 4u] = q.top;
    y[4u * (base + (2u + side) * params.groups + c) + i % 4u] = q.mid;
    y[4u * (base + (4u + side) * params.groups + c) + i % 4u] = q.low;
    if i % 8u == 0u {
        let at = 4u * (base + 6u * params.groups + c);
        y[at] = bitcast<u32>(factor * q.scale);
        y[at + 1u] = bitcast<u32>(q.sum);
        y[at + 2u] = bitcast<u32>(other);
        y[at + 3u] = 0u;
    }
}
