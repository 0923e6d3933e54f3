// chosen[slot] = the id of the largest of the parts of argmax_parts.
#import "common/choice.wgsl"
#import "common/best.wgsl"

@group(0) @binding(0) var<uniform> params: ChoiceParams;
@group(0) @binding(1) var<storage, read> parts: array<u32>;
@group(0) @binding(2) var<storage, read_write> chosen: array<u32>;

const PART: u32 = 1024u;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let count = (params.vocab + PART - 1u) / PART;
    var value = 0.0;
    var best = NONE;
    for (var i = lane; i < count; i += LANES) {
        let id = parts[2u * i + 1u];
        let x = bitcast<f32>(parts[2u * i]);
        if id != NONE && (best == NONE || x > value) {
            value = x;
            best = id;
        }
    }
    best_of(lane, value, best);
    if lane == 0u {
        chosen[params.slot] = ids[0];
    }
}
