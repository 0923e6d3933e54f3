// Sums over the workgroup: within subgroups, then through workgroup memory. Each lane calls `fold` for every sum,
// then `settle`, then any lane `total`.
#requires subgroups
var<workgroup> folded: array<f32, LANES * {SUMS}>;
var<private> subgroup: u32;
var<private> subgroup_lane: u32;
var<private> subgroups: u32;

fn fold(lane: u32, i: u32, value: f32) {
    let sum = subgroupAdd(value);
    if subgroup_lane == 0u {
        folded[i * LANES + subgroup] = sum;
    }
}

fn settle(lane: u32) {
    workgroupBarrier();
}

fn total(i: u32) -> f32 {
    var sum = 0.0;
    for (var s = 0u; s < subgroups; s++) {
        sum += folded[i * LANES + s];
    }
    return sum;
}
