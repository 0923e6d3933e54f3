// Gated short convolution: u = B * x, y[t] = C[t] * sum_j kernel[j] * u[t - (taps - 1) + j].
// Also writes the window after the batch's last token, and the window before every page's first token.
#import "common/grid.wgsl"
#import "common/facts.wgsl"

struct ShortConvParams {
    tokens: u32,
    channels: u32,
    taps: u32,
}

// A sequence's share of the batch.
struct ConvSlot {
    // Its first token in the batch, and how many.
    first: u32,
    count: u32,
    // Entries of `windows`: before and after the batch, never the same.
    window_in: u32,
    window_out: u32,
}

@group(0) @binding(0) var<uniform> params: ShortConvParams;
@group(0) @binding(1) var<storage, read> facts: array<u32>;
// [token][B | C | x]
@group(0) @binding(2) var<storage, read> projected: array<f32>;
// [channel][tap]
@group(0) @binding(3) var<storage, read> kernel: array<f32>;
// [entry][taps - 1][channel]
@group(0) @binding(4) var<storage, read_write> windows: array<f32>;
// [page][taps - 1][channel]
@group(0) @binding(5) var<storage, read_write> pages: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

// u of the slot's token `index`; those before the batch are in the window.
fn input(slot: ConvSlot, index: i32, channel: u32) -> f32 {
    let rows = params.taps - 1u;
    if index < 0 {
        return windows[(slot.window_in * rows + u32(i32(rows) + index)) * params.channels + channel];
    }
    let at = (slot.first + u32(index)) * 3u * params.channels + channel;
    return projected[at] * projected[at + 2u * params.channels];
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_group(group, groups) * 256u + lane;
    if i >= params.tokens * params.channels {
        return;
    }
    let t = i / params.channels;
    let channel = i % params.channels;
    let token = token_at(t);
    let place = facts[FACTS_SLOTS] + 4u * token.slot;
    let slot = ConvSlot(facts[place], facts[place + 1u], facts[place + 2u], facts[place + 3u]);
    let rows = params.taps - 1u;
    let oldest = i32(token.index) - i32(rows);
    var sum = 0.0;
    for (var j = 0u; j < params.taps; j++) {
        sum += kernel[channel * params.taps + j] * input(slot, oldest + i32(j), channel);
    }
    y[i] = projected[t * 3u * params.channels + params.channels + channel] * sum;

    if token.position % PAGE_TOKENS == 0u {
        let page = page_of(token.table, token.position);
        for (var r = 0u; r < rows; r++) {
            pages[(page * rows + r) * params.channels + channel] = input(slot, oldest + i32(r), channel);
        }
    }
    if token.index + 1u == slot.count {
        for (var r = 0u; r < rows; r++) {
            windows[(slot.window_out * rows + r) * params.channels + channel] =
                input(slot, oldest + 1 + i32(r), channel);
        }
    }
}
