// The repetition penalty: divides the positive and multiplies the other logits of the ids in `history`, each of
// which occurs once.
#import "common/choice.wgsl"

@group(0) @binding(0) var<uniform> params: ChoiceParams;
@group(0) @binding(1) var<storage, read> history: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x >= params.history || history[at.x] >= params.vocab {
        return;
    }
    let i = params.row * params.vocab + history[at.x];
    let value = logits[i];
    logits[i] = select(value * params.penalty, value / params.penalty, value > 0.0);
}
