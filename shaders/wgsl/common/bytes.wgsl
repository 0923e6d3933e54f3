// Matrices as bytes, for products of integers: of each group the numbers as they are in the file, unsigned but those
// of Q8_0, and what makes weights of them. Reading is apart from unpacking, so that a lane has several reads under way.
#import "common/format.wgsl"

// What is read of a group.
struct Raw {
    numbers: vec4<u32>,
    // Of Q8_0.
    more: vec4<u32>,
    scales: vec4<u32>,
    // Fifth bits of Q5_K.
    high: u32,
}

struct Bytes {
    // Elements 4k .. 4k + 4 of the first, of the second half.
    first: vec4<u32>,
    second: vec4<u32>,
    // (factor, offset) of the first and of the second half, the same but for Q6_K. Formats without an offset of their
    // own have a factor alone, and MIDDLE is subtracted from their numbers.
    scale: vec4<f32>,
}

const MIDDLE: i32 = select(select(select(0, 32, FORMAT == Q6_K), 16, FORMAT == Q5_0), 8, FORMAT == Q4_0);

fn read_group(g: u32) -> Raw {
    var raw: Raw;
    if FORMAT == Q8_0 {
        raw.numbers = weights[2u * g];
        raw.more = weights[2u * g + 1u];
    } else {
        raw.numbers = weights[g];
    }
    if FORMAT == Q4_0 || FORMAT == Q8_0 {
        raw.scales.x = scales[g / 2u];
    } else if FORMAT == Q4_1 {
        raw.scales.x = scales[g];
    } else if FORMAT == Q4_K {
        raw.scales = header(g / 8u * 4u);
    } else if FORMAT == Q5_K {
        raw.scales = header(g / 8u * 12u);
        raw.high = scales[g / 8u * 12u + 4u + g % 8u];
    } else if FORMAT == Q6_K {
        let at = g / 8u * 21u;
        let j = g % 8u;
        raw.scales = vec4<u32>(scales[at + 4u], scales[at + j / 2u], scales[at + 5u + 2u * j], scales[at + 6u + 2u * j]);
    } else {
        raw.scales.x = scales[2u * g];
        raw.scales.y = scales[2u * g + 1u];
    }
    return raw;
}

// Four bits as the fifth bits of four bytes.
fn fifth_bits(h: u32) -> u32 {
    return (((h & 15u) * 0x00204081u) & 0x01010101u) << 4u;
}

fn fifth(h: u32) -> vec4<u32> {
    return vec4<u32>(fifth_bits(h), fifth_bits(h >> 4u), fifth_bits(h >> 8u), fifth_bits(h >> 12u));
}

// Four pairs of bits as the upper bits of four bytes of six.
fn upper_bits(h: u32) -> u32 {
    let far = ((h & 255u) | (h << 12u)) & 0x000f000fu;
    return ((far | (far << 6u)) & 0x03030303u) << 4u;
}

fn upper(h: u32) -> vec4<u32> {
    return vec4<u32>(upper_bits(h), upper_bits(h >> 8u), upper_bits(h >> 16u), upper_bits(h >> 24u));
}

// The bytes of group g.
fn bytes_of(raw: Raw, g: u32) -> Bytes {
    var q: Bytes;
    if FORMAT == Q8_0 {
        q.first = raw.numbers;
        q.second = raw.more;
    } else {
        q.first = raw.numbers & vec4<u32>(0x0f0f0f0fu);
        q.second = (raw.numbers >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    }
    let x = unpack2x16float(raw.scales.x);
    if FORMAT == Q4_0 || FORMAT == Q8_0 {
        q.scale.x = select(x.x, x.y, g % 2u == 1u);
    } else if FORMAT == Q4_1 {
        q.scale = vec4<f32>(x, x);
    } else if FORMAT == Q6_K {
        let pair = raw.scales.y;
        let j = 2u * (g % 2u);
        q.first |= upper(raw.scales.z);
        q.second |= upper(raw.scales.w);
        q.scale.x = x.x * signed_byte(pair, j);
        q.scale.z = x.x * signed_byte(pair, j + 1u);
    } else if FORMAT == Q4_K || FORMAT == Q5_K {
        let d = k_scale(raw.scales, g % 8u);
        q.scale = vec4<f32>(d, d);
    } else {
        let d = unpack2x16float(raw.scales.y);
        q.scale = vec4<f32>(d, d);
    }
    if FORMAT == Q5_0 || FORMAT == Q5_1 || FORMAT == Q5_K {
        let high = select(raw.scales.x, raw.high, FORMAT == Q5_K);
        q.first |= fifth(high);
        q.second |= fifth(high >> 16u);
    }
    return q;
}
