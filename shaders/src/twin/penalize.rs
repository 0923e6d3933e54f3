use crate::ChoiceParams;

/// Divides the positive and multiplies the other logits of the ids in `history`.
pub fn penalize(params: &ChoiceParams, history: &[u32], logits: &mut [f32]) {
    for id in history.iter().take(params.history as usize).filter(|id| **id < params.vocab) {
        let x = &mut logits[(params.row * params.vocab + id) as usize];
        *x = if *x > 0.0 { *x / params.penalty } else { *x * params.penalty };
    }
}
