// Activations as integers of 22 bits with a scale a group of 32. 22 bits of a group's largest value are as fine as
// float32 is where a product is summed. An integer is (upper * 128 + middle) * 128 + lower, each from -127 to 127.
#requires subgroups

// Subgroups of the first of a workgroup's lanes that take the sum of squares, in the same way whatever else they do.
const QUANTISE_LANES: u32 = 256u;
// So that its upper byte fits, rounded up.
const LARGEST: f32 = 2088959.0;

// Bytes of four integers, the sum of its half of the group (by the lane of four that has it), and the group's scale.
struct Quantised {
    top: u32,
    mid: u32,
    low: u32,
    sum: i32,
    scale: f32,
}

fn word(v: vec4<i32>) -> u32 {
    let b = bitcast<vec4<u32>>(v) & vec4<u32>(255u);
    return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}

// Four elements of a group, whose eight lanes are of one subgroup and call this together.
fn quantise(v: vec4<f32>) -> Quantised {
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
    let top = (q + vec4<i32>(8192)) >> vec4<u32>(14u);
    let rest = q - (top << vec4<u32>(14u));
    let mid = (rest + vec4<i32>(64)) >> vec4<u32>(7u);
    let low = rest - (mid << vec4<u32>(7u));
    return Quantised(word(top), word(mid), word(low), sum, most / LARGEST);
}
