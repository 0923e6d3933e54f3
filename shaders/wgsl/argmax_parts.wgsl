// The largest allowed logit of each part of a row, PART ids long. NaN is never chosen.
#import "common/choice.wgsl"
#import "common/best.wgsl"

@group(0) @binding(0) var<uniform> params: ChoiceParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// Bit `id % 32` of word `id / 32`.
@group(0) @binding(2) var<storage, read> mask: array<u32>;
// [part] of (bits of the value, id), the id NONE where nothing is allowed.
@group(0) @binding(3) var<storage, read_write> parts: array<u32>;

const PART: u32 = 1024u;

// By bits: `x != x` may be optimised away.
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = params.row * params.vocab;
    let end = min(params.vocab, (group.x + 1u) * PART);
    var value = 0.0;
    var best = NONE;
    for (var id = group.x * PART + lane; id < end; id += LANES) {
        let allowed = params.masked == 0u || ((mask[id / 32u] >> (id % 32u)) & 1u) == 1u;
        let x = logits[row + id];
        if allowed && !is_nan(x) && (best == NONE || x > value) {
            value = x;
            best = id;
        }
    }
    best_of(lane, value, best);
    if lane == 0u {
        parts[2u * group.x] = bitcast<u32>(values[0]);
        parts[2u * group.x + 1u] = ids[0];
    }
}
