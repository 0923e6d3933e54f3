// The largest of the values that the lanes hold, and its id: the lowest among equals.
const LANES: u32 = 256u;
var<workgroup> values: array<f32, LANES>;
var<workgroup> ids: array<u32, LANES>;

// The result is in lane 0's places.
fn best_of(lane: u32, value: f32, id: u32) {
    values[lane] = value;
    ids[lane] = id;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            let other = ids[lane + half];
            let v = values[lane + half];
            let mine = ids[lane];
            if other != NONE && (mine == NONE || v > values[lane] || (v == values[lane] && other < mine)) {
                values[lane] = v;
                ids[lane] = other;
            }
        }
        workgroupBarrier();
    }
}
