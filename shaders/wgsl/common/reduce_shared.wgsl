// Sums over the workgroup, through workgroup memory. Each lane calls `fold` for every sum, then `settle`, then any
// lane `total`.
var<workgroup> folded: array<f32, LANES * {SUMS}>;

fn fold(lane: u32, i: u32, value: f32) {
    folded[i * LANES + lane] = value;
}

fn settle(lane: u32) {
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
#for i in 0..{SUMS}
            folded[{i}u * LANES + lane] += folded[{i}u * LANES + lane + half];
#end
        }
        workgroupBarrier();
    }
}

fn total(i: u32) -> f32 {
    return folded[i * LANES];
}
