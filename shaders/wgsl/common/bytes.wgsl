// Matrices as bytes, for products of integers: of each group the numbers as they are in the file, unsigned but those
// of Q8_0, and what makes weights of them.
#import "common/format.wgsl"

struct Bytes {
    // Elements 4k .. 4k + 4 of the first, of the second half.
    first: vec4<u32>,
    second: vec4<u32>,
    // (factor, offset) of the first and of the second half, the same but for Q6_K. Formats without an offset of their
    // own have a factor alone, and MIDDLE is subtracted from their numbers.
    scale: vec4<f32>,
}

const MIDDLE: i32 = select(select(select(0, 32, FORMAT == Q6_K), 16, FORMAT == Q5_0), 8, FORMAT == Q4_0);

// Four bits as the fifth bits of four bytes.
fn fifth_bits(h: u32) -> u32 {
    return (((h & 15u) * 0x00204081u) & 0x01010101u) << 4u;
}

// Four pairs of bits as the upper bits of four bytes of six.
fn upper_bits(h: u32) -> u32 {
    let far = ((h & 255u) | (h << 12u)) & 0x000f000fu;
    return ((far | (far << 6u)) & 0x03030303u) << 4u;
}

fn load_bytes(g: u32) -> Bytes {
    var q: Bytes;
    if FORMAT == Q8_0 {
        q.first = weights[2u * g];
        q.second = weights[2u * g + 1u];
        q.scale = vec4<f32>(one_half(g), 0.0, 0.0, 0.0);
        return q;
    }
    let both = weights[g];
    q.first = both & vec4<u32>(0x0f0f0f0fu);
    q.second = (both >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    if FORMAT == Q4_0 {
        q.scale.x = one_half(g);
    } else if FORMAT == Q4_1 {
        let d = unpack2x16float(scales[g]);
        q.scale = vec4<f32>(d, d);
    } else if FORMAT == Q4_K {
        let d = k_scale(g / 8u * 4u, g % 8u);
        q.scale = vec4<f32>(d, d);
    } else if FORMAT == Q6_K {
        let at = g / 8u * 21u;
        let j = g % 8u;
        let d = unpack2x16float(scales[at + 4u]).x;
        let pair = scales[at + j / 2u];
        let a = scales[at + 5u + 2u * j];
        let b = scales[at + 6u + 2u * j];
        q.first |= vec4<u32>(upper_bits(a), upper_bits(a >> 8u), upper_bits(a >> 16u), upper_bits(a >> 24u));
        q.second |= vec4<u32>(upper_bits(b), upper_bits(b >> 8u), upper_bits(b >> 16u), upper_bits(b >> 24u));
        q.scale.x = d * signed_byte(pair, 2u * (j % 2u));
        q.scale.z = d * signed_byte(pair, 2u * (j % 2u) + 1u);
    } else {
        var h: u32;
        if FORMAT == Q5_K {
            let at = g / 8u * 12u;
            h = scales[at + 4u + g % 8u];
            let d = k_scale(at, g % 8u);
            q.scale = vec4<f32>(d, d);
        } else {
            h = scales[2u * g];
            let d = unpack2x16float(scales[2u * g + 1u]);
            q.scale = vec4<f32>(d, d);
        }
        q.first |= vec4<u32>(fifth_bits(h), fifth_bits(h >> 4u), fifth_bits(h >> 8u), fifth_bits(h >> 12u));
        q.second |= vec4<u32>(fifth_bits(h >> 16u), fifth_bits(h >> 20u), fifth_bits(h >> 24u), fifth_bits(h >> 28u));
    }
    return q;
}
