// What a group of weights as bytes and one of quantised activations add to a sum. The kernel has vector_at, scale_at
// and sums_at, which read the activations.
fn dots(w: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}

// (factor, value) of a group of weights and one of activations; the product of the two counts.
fn group_sum(q: Bytes, at: u32) -> vec2<f32> {
    let scale = scale_at(at);
    let sums = sums_at(at);
    let top_a = dots(q.first, vector_at(at, 0u));
    let top_b = dots(q.second, vector_at(at, 1u));
    let mid_a = dots(q.first, vector_at(at, 2u));
    let mid_b = dots(q.second, vector_at(at, 3u));
    let low_a = dots(q.first, vector_at(at, 4u));
    let low_b = dots(q.second, vector_at(at, 5u));
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
