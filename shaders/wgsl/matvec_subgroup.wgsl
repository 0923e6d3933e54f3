// The same as matvec, with subgroup operations.
#let ROWS = 8
#let TOKENS = 1
#let SUMS = 9
#const LANES: u32 in 32, 64, 128
#import "common/reduce_subgroup.wgsl"
#import "common/matvec.wgsl"

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) id: u32,
    @builtin(num_subgroups) count: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    subgroup = id;
    subgroups = count;
    subgroup_lane = place;
    multiply(flat_group(group, groups), group.z, lane);
}
