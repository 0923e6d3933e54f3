// Turns the pairs of every head in place by the angles of its token. Sines come from the host: the built-in
// ones are only defined to 2^-11, and only within [-pi, pi].
#import "common/grid.wgsl"
// Pairs are (i, i + pairs); otherwise (2i, 2i + 1).
#const HALVES: bool in false, true

struct RopeParams {
    tokens: u32,
    heads: u32,
    head_dim: u32,
    // Rotated pairs of a head.
    pairs: u32,
}

@group(0) @binding(0) var<uniform> params: RopeParams;
// [token][pair] of (cos, sin).
@group(0) @binding(1) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    if i >= params.tokens * params.heads * params.pairs {
        return;
    }
    let pair = i % params.pairs;
    let head = i / params.pairs;
    let base = head * params.head_dim;
    var a = base + 2u * pair;
    var b = a + 1u;
    if HALVES {
        a = base + pair;
        b = a + params.pairs;
    }
    let angle = angles[(head / params.heads) * params.pairs + pair];
    let u = x[a];
    let v = x[b];
    x[a] = u * angle.x - v * angle.y;
    x[b] = u * angle.y + v * angle.x;
}
