// A matrix times the activations of one token, through workgroup memory.
#let ROWS = 8
#let TOKENS = 1
#let SUMS = 9
#const LANES: u32 in 32, 64, 128
#import "common/reduce_shared.wgsl"
#import "common/matvec.wgsl"

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    multiply(flat_group(group, groups), group.z, lane);
}
