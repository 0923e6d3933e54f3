// chosen[slot] = the id of the largest allowed logit of a row, the lowest among equals; NONE if there is none.

struct ArgmaxParams {
    vocab: u32,
    // Row of the logits to look at.
    row: u32,
    // Where to put the id.
    slot: u32,
    // 1: only ids whose bit is set in the mask.
    masked: u32,
}

@group(0) @binding(0) var<uniform> params: ArgmaxParams;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// Bit `id % 32` of word `id / 32`.
@group(0) @binding(2) var<storage, read> mask: array<u32>;
@group(0) @binding(3) var<storage, read_write> chosen: array<u32>;

const LANES: u32 = 256u;
const NONE: u32 = 0xffffffffu;
var<workgroup> values: array<f32, LANES>;
var<workgroup> ids: array<u32, LANES>;

// By bits: `x != x` may be optimised away.
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let row = params.row * params.vocab;
    var value = 0.0;
    var best = NONE;
    for (var id = lane; id < params.vocab; id += LANES) {
        let allowed = params.masked == 0u || ((mask[id / 32u] >> (id % 32u)) & 1u) == 1u;
        let x = logits[row + id];
        if allowed && !is_nan(x) && (best == NONE || x > value) {
            value = x;
            best = id;
        }
    }
    values[lane] = value;
    ids[lane] = best;
    workgroupBarrier();
    if lane > 0u {
        return;
    }
    for (var i = 1u; i < LANES; i++) {
        let id = ids[i];
        let x = values[i];
        if id != NONE && (best == NONE || x > value || (x == value && id < best)) {
            value = x;
            best = id;
        }
    }
    chosen[params.slot] = best;
}
