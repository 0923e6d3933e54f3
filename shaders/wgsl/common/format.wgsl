// How matrices are stored on the device. A row is groups of 32 elements; a group's numbers are one or more vectors
// of `weights`, what scales them lies in `scales`:
//
//   F32    8 vectors of floats                    F16, BF16   4 vectors of halves, two a word
//   Q8_0   2 vectors of bytes (signed)            the others  1 vector of nibbles:
//          byte b of word k: element 4k + b (low nibble) and 16 + 4k + b (high nibble)
//
//   words of `scales`
//   Q4_0, Q8_0   f16 d of two groups              Q4_1   f16 d, m of a group
//   Q5_0         fifth bits, f16 d                Q5_1   fifth bits, f16 d, m
//   for eight groups together:
//   Q4_K   f16 d, dmin; 3 words of 6-bit scales and minima as in the file
//   Q5_K   the same 4 words; fifth bits of 8 groups
//   Q6_K   4 words of signed scales (of 16 elements each), f16 d, 2 words of upper bits a group
//
// Integers become floats without a conversion: put below the exponent of 1.0, `q` of n bits reads as 1 + q / 2^n.
// A group's `scale` turns these into weights: (factor, offset) of its first and of its second half.
#const FORMAT: u32 in 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
const F32: u32 = 0u;
const F16: u32 = 1u;
const BF16: u32 = 2u;
const Q4_0: u32 = 3u;
const Q4_1: u32 = 4u;
const Q5_0: u32 = 5u;
const Q5_1: u32 = 6u;
const Q8_0: u32 = 7u;
const Q4_K: u32 = 8u;
const Q5_K: u32 = 9u;
const Q6_K: u32 = 10u;

struct Group {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
    // Fifth bits, or the two upper bits of the first and of the second half.
    high: vec2<u32>,
    scale: vec4<f32>,
}

const ONE: vec4<u32> = vec4<u32>(0x3f800000u);

// The 16-bit float of group g where each has one.
fn one_half(g: u32) -> f32 {
    let both = unpack2x16float(scales[g / 2u]);
    return select(both.x, both.y, g % 2u == 1u);
}

// (factor, offset) of values d * q + m whose q has `steps` values and reads as 1 + q / steps.
fn affine(d: f32, m: f32, steps: f32) -> vec4<f32> {
    let s = d * steps;
    return vec4<f32>(s, m - s, s, m - s);
}

// d and m of sub-block j of a Q4_K or Q5_K block, by the words of its header.
fn k_scale(words: vec4<u32>, j: u32) -> vec2<f32> {
    let d = unpack2x16float(words.x);
    let shift = 8u * (j % 4u);
    let x = words.y >> shift;
    let y = words.z >> shift;
    let z = words.w >> shift;
    var scale = x & 63u;
    var low = y & 63u;
    if j >= 4u {
        scale = (z & 15u) | (((x >> 6u) & 3u) << 4u);
        low = ((z >> 4u) & 15u) | (((y >> 6u) & 3u) << 4u);
    }
    return vec2<f32>(d.x * f32(scale), -(d.y * f32(low)));
}

// Four words from `at`.
fn header(at: u32) -> vec4<u32> {
    return vec4<u32>(scales[at], scales[at + 1u], scales[at + 2u], scales[at + 3u]);
}

// Byte i of a word, signed.
fn signed_byte(word: u32, i: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(word), 8u * i, 8u));
}

fn load(g: u32) -> Group {
    var q: Group;
    q.scale = vec4<f32>(1.0, 0.0, 1.0, 0.0);
    if FORMAT == F16 || FORMAT == BF16 {
        q.a = weights[4u * g];
        q.b = weights[4u * g + 1u];
        q.c = weights[4u * g + 2u];
        q.d = weights[4u * g + 3u];
    } else if FORMAT == Q8_0 {
        q.a = weights[2u * g] ^ vec4<u32>(0x80808080u);
        q.b = weights[2u * g + 1u] ^ vec4<u32>(0x80808080u);
        let d = one_half(g);
        q.scale = affine(d, -128.0 * d, 256.0);
    } else if FORMAT != F32 {
        q.a = weights[g];
    }
    if FORMAT == Q4_0 {
        let d = one_half(g);
        q.scale = affine(d, -8.0 * d, 16.0);
    } else if FORMAT == Q4_1 {
        let d = unpack2x16float(scales[g]);
        q.scale = affine(d.x, d.y, 16.0);
    } else if FORMAT == Q5_0 {
        q.high.x = scales[2u * g];
        let d = unpack2x16float(scales[2u * g + 1u]).x;
        q.scale = affine(d, -16.0 * d, 32.0);
    } else if FORMAT == Q5_1 {
        q.high.x = scales[2u * g];
        let d = unpack2x16float(scales[2u * g + 1u]);
        q.scale = affine(d.x, d.y, 32.0);
    } else if FORMAT == Q4_K {
        let d = k_scale(header(g / 8u * 4u), g % 8u);
        q.scale = affine(d.x, d.y, 16.0);
    } else if FORMAT == Q5_K {
        let at = g / 8u * 12u;
        q.high.x = scales[at + 4u + g % 8u];
        let d = k_scale(header(at), g % 8u);
        q.scale = affine(d.x, d.y, 32.0);
    } else if FORMAT == Q6_K {
        let at = g / 8u * 21u;
        let j = g % 8u;
        let d = unpack2x16float(scales[at + 4u]).x;
        let pair = scales[at + j / 2u];
        q.high = vec2<u32>(scales[at + 5u + 2u * j], scales[at + 6u + 2u * j]);
        let s = d * signed_byte(pair, 2u * (j % 2u));
        let t = d * signed_byte(pair, 2u * (j % 2u) + 1u);
        q.scale = vec4<f32>(64.0 * s, -96.0 * s, 64.0 * t, -96.0 * t);
    }
    return q;
}

// Four halves.
fn halves(words: vec2<u32>) -> vec4<f32> {
    if FORMAT == BF16 {
        return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
    }
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

// Bytes of a word.
fn bytes(w: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>((vec4<u32>(w << 15u, w << 7u, w >> 1u, w >> 9u) & vec4<u32>(0x007f8000u)) | ONE);
}

// Elements 4k .. 4k + 4 of group g, before its scale.
fn first_half(q: Group, g: u32, k: u32) -> vec4<f32> {
    if FORMAT == F32 {
        return bitcast<vec4<f32>>(weights[8u * g + k]);
    }
    if FORMAT == F16 || FORMAT == BF16 {
        let v = select(q.b, q.a, k < 2u);
        return halves(select(v.zw, v.xy, k % 2u == 0u));
    }
    let w = q.a[k];
    if FORMAT == Q8_0 {
        return bytes(w);
    }
    if FORMAT == Q4_0 || FORMAT == Q4_1 || FORMAT == Q4_K {
        return bitcast<vec4<f32>>((vec4<u32>(w << 19u, w << 11u, w << 3u, w >> 5u) & vec4<u32>(0x00780000u)) | ONE);
    }
    if FORMAT == Q6_K {
        let h = q.high.x >> (8u * k);
        let low = vec4<u32>(w << 17u, w << 9u, w << 1u, w >> 7u) & vec4<u32>(0x001e0000u);
        let top = vec4<u32>(h << 21u, h << 19u, h << 17u, h << 15u) & vec4<u32>(0x00600000u);
        return bitcast<vec4<f32>>(low | top | ONE);
    }
    let h = q.high.x >> (4u * k);
    let low = vec4<u32>(w << 18u, w << 10u, w << 2u, w >> 6u) & vec4<u32>(0x003c0000u);
    let top = vec4<u32>(h << 22u, h << 21u, h << 20u, h << 19u) & vec4<u32>(0x00400000u);
    return bitcast<vec4<f32>>(low | top | ONE);
}

// Elements 16 + 4k .. 16 + 4k + 4 of group g, before its scale.
fn second_half(q: Group, g: u32, k: u32) -> vec4<f32> {
    if FORMAT == F32 {
        return bitcast<vec4<f32>>(weights[8u * g + 4u + k]);
    }
    if FORMAT == F16 || FORMAT == BF16 {
        let v = select(q.d, q.c, k < 2u);
        return halves(select(v.zw, v.xy, k % 2u == 0u));
    }
    if FORMAT == Q8_0 {
        return bytes(q.b[k]);
    }
    let w = q.a[k];
    if FORMAT == Q4_0 || FORMAT == Q4_1 || FORMAT == Q4_K {
        return bitcast<vec4<f32>>((vec4<u32>(w << 15u, w << 7u, w >> 1u, w >> 9u) & vec4<u32>(0x00780000u)) | ONE);
    }
    if FORMAT == Q6_K {
        let h = q.high.y >> (8u * k);
        let low = vec4<u32>(w << 13u, w << 5u, w >> 3u, w >> 11u) & vec4<u32>(0x001e0000u);
        let top = vec4<u32>(h << 21u, h << 19u, h << 17u, h << 15u) & vec4<u32>(0x00600000u);
        return bitcast<vec4<f32>>(low | top | ONE);
    }
    let h = q.high.x >> (16u + 4u * k);
    let low = vec4<u32>(w << 14u, w << 6u, w >> 2u, w >> 10u) & vec4<u32>(0x003c0000u);
    let top = vec4<u32>(h << 22u, h << 21u, h << 20u, h << 19u) & vec4<u32>(0x00400000u);
    return bitcast<vec4<f32>>(low | top | ONE);
}
