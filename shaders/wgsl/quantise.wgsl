// Activations as integers of 22 bits with a scale a group, for the products of bytes; with NORM they are normed first.
// 22 bits of a group's largest value are as fine as float32 is where a product is summed.
// Of each token 7 vectors of 4 words a group, `[vector][group]`: the integers' upper bytes, of the group's first and
// of its second half, then the middle ones and the lower ones alike (an integer is (upper * 128 + middle) * 128 +
// lower, each from -127 to 127), and (bits of the scale, sum of the first half's integers, of the second's, 0).
#requires subgroups
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

const LANES: u32 = 256u;
// So that its upper byte fits, rounded up.
const LARGEST: f32 = 2088959.0;
var<workgroup> partial: array<f32, LANES>;

fn word(v: vec4<i32>) -> u32 {
    let b = bitcast<vec4<u32>>(v) & vec4<u32>(255u);
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

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
    let from = group.y * width;
    let i = group.x * LANES + lane;
    let valid = i < width;
    var v = vec4<f32>();
    if valid {
        v = x[from + i];
    }
    var factor = 1.0;
    if NORM {
        var square = 0.0;
        for (var j = lane; j < width; j += LANES) {
            let u = x[from + j];
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
    let pair = max(abs(v.xy), abs(v.zw));
    var most = max(pair.x, pair.y);
    most = max(most, subgroupShuffleXor(most, 1u));
    most = max(most, subgroupShuffleXor(most, 2u));
    most = max(most, subgroupShuffleXor(most, 4u));
    // Below this a quotient would overflow; what is that small is nothing.
    let step = select(0.0, LARGEST / most, most > 1.0e-30);
    let q = clamp(vec4<i32>(round(v * step)), vec4<i32>(-2088959), vec4<i32>(2088959));
    var sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    let other = subgroupShuffleXor(sum, 4u);
    if !valid {
        return;
    }
    let top = (q + vec4<i32>(8192)) >> vec4<u32>(14u);
    let rest = q - (top << vec4<u32>(14u));
    let mid = (rest + vec4<i32>(64)) >> vec4<u32>(7u);
    let low = rest - (mid << vec4<u32>(7u));
    let c = i / 8u;
    let side = i % 8u / 4u;
    let base = group.y * 7u * params.groups;
    y[4u * (base + side * params.groups + c) + i % 4u] = word(top);
    y[4u * (base + (2u + side) * params.groups + c) + i % 4u] = word(mid);
    y[4u * (base + (4u + side) * params.groups + c) + i % 4u] = word(low);
    if i % 8u == 0u {
        let at = 4u * (base + 6u * params.groups + c);
        y[at] = bitcast<u32>(factor * (most / LARGEST));
        y[at + 1u] = bitcast<u32>(sum);
        y[at + 2u] = bitcast<u32>(other);
        y[at + 3u] = 0u;
    }
}
