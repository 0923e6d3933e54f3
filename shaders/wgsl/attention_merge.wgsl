// Puts the parts of attention_step together: y[head] = sum of exp(best - top) * part over sum of the totals alike; at most 256 parts.
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
const MOST: u32 = 256u;
// (best, total) of each part.
var<workgroup> marks: array<vec2<f32>, MOST>;

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let first = head * params.parts * (WIDTH + 1u);
    for (var p = lane; p < params.parts; p += WIDTH) {
        marks[p] = parts[first + p * (WIDTH + 1u) + WIDTH].xy;
    }
    workgroupBarrier();
    var top = -3.0e38;
    for (var p = 0u; p < params.parts; p++) {
        top = max(top, marks[p].x);
    }
    var sum = vec4<f32>();
    var total = 0.0;
    // Several at a time, so that their reads are under way together.
    for (var p = 0u; p < params.parts; p += 8u) {
#for i in 0..8
        let p{i} = min(p + {i}u, params.parts - 1u);
        let v{i} = parts[first + p{i} * (WIDTH + 1u) + lane];
#end
#for i in 0..8
        // A part without a page has total 0.
        if p + {i}u < params.parts && marks[p{i}].y > 0.0 {
            let share = exp(max(marks[p{i}].x - top, -80.0));
            sum += share * v{i};
            total += share * marks[p{i}].y;
        }
#end
    }
    y[head * WIDTH + lane] = sum / total;
}
