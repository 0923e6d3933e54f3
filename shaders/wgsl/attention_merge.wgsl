// Puts the parts of attention_step together: y[head] = sum of exp(best - top) * part over sum of the totals alike.
#const HEAD_DIM: u32 in 32, 64, 80, 96, 128, 256

struct MergeParams {
    // Of all tokens.
    heads: u32,
    parts: u32,
}

@group(0) @binding(0) var<uniform> params: MergeParams;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = HEAD_DIM / 4u;

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let first = head * params.parts * (WIDTH + 1u);
    var top = -3.0e38;
    for (var p = 0u; p < params.parts; p++) {
        top = max(top, parts[first + p * (WIDTH + 1u) + WIDTH].x);
    }
    var sum = vec4<f32>();
    var total = 0.0;
    for (var p = 0u; p < params.parts; p++) {
        let at = first + p * (WIDTH + 1u);
        let mark = parts[at + WIDTH];
        // A part without a page has total 0.
        if mark.y > 0.0 {
            let share = exp(max(mark.x - top, -80.0));
            sum += share * parts[at + lane];
            total += share * mark.y;
        }
    }
    y[head * WIDTH + lane] = sum / total;
}
