use crate::RopeParams;

/// Turns the pairs of every head in place; `angles: [tokens][pairs]` of `(cos, sin)`. `halves` is the kernel's
/// constant: pairs are `(i, i + pairs)`, otherwise `(2i, 2i + 1)`.
pub fn rope(halves: bool, params: &RopeParams, angles: &[[f32; 2]], x: &mut [f32]) {
    let (heads, pairs) = (params.heads as usize, params.pairs as usize);
    for t in 0..params.tokens as usize {
        for head in 0..heads {
            let base = (t * heads + head) * params.head_dim as usize;
            for i in 0..pairs {
                let (a, b) =
                    if halves { (base + i, base + i + pairs) } else { (base + 2 * i, base + 2 * i + 1) };
                let [cos, sin] = angles[t * pairs + i];
                (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos);
            }
        }
    }
}
