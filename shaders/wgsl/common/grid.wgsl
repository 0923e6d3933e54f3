// One dimension of a dispatch holds 65,535 workgroups; longer ones are folded into y.
fn flat_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
