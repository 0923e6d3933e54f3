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
const LANES: u32 = 256u;
// Parts that are read side by side, each by WIDTH lanes.
const SLICES: u32 = LANES / WIDTH;
// (best, total) of each part.
var<workgroup> marks: array<vec2<f32>, MOST>;
var<workgroup> sums: array<vec4<f32>, LANES>;
var<workgroup> totals: array<f32, SLICES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let first = head * params.parts * (WIDTH + 1u);
    let slice = lane / WIDTH;
    let place = lane % WIDTH;
    // Several at a time, so that their reads are under way together.
#for i in 0..4
    let p{i} = min(slice + {i}u * SLICES, params.parts - 1u);
    let v{i} = parts[first + p{i} * (WIDTH + 1u) + place];
#end
    if lane < params.parts {
        marks[lane] = parts[first + lane * (WIDTH + 1u) + WIDTH].xy;
    }
    workgroupBarrier();
    var top = -3.0e38;
    for (var p = 0u; p < params.parts; p++) {
        top = max(top, marks[p].x);
    }
    var sum = vec4<f32>();
    var total = 0.0;
    if slice < SLICES {
#for i in 0..4
        // A part without a page has total 0.
        if slice + {i}u * SLICES < params.parts && marks[p{i}].y > 0.0 {
            let share = exp(max(marks[p{i}].x - top, -80.0));
            sum += share * v{i};
            total += share * marks[p{i}].y;
        }
#end
        for (var p = slice + 4u * SLICES; p < params.parts; p += SLICES) {
            if marks[p].y > 0.0 {
                let share = exp(max(marks[p].x - top, -80.0));
                sum += share * parts[first + p * (WIDTH + 1u) + place];
                total += share * marks[p].y;
            }
        }
    }
    sums[lane] = sum;
    if slice < SLICES && place == 0u {
        totals[slice] = total;
    }
    workgroupBarrier();
    if lane >= WIDTH {
        return;
    }
    for (var s = 1u; s < SLICES; s++) {
        sum += sums[s * WIDTH + lane];
        total += totals[s];
    }
    y[head * WIDTH + lane] = sum / total;
}
