use crate::ArgmaxParams;

/// What is chosen when nothing is allowed.
pub const NONE: u32 = u32::MAX;

/// `chosen[slot]` = the id of the largest allowed logit of a row, the lowest among equals; NaN is never chosen.
pub fn argmax(params: &ArgmaxParams, logits: &[f32], mask: &[u32], chosen: &mut [u32]) {
    let row = (params.row * params.vocab) as usize;
    let mut best: Option<(u32, f32)> = None;
    for id in 0..params.vocab {
        let allowed = params.masked == 0 || mask[id as usize / 32] >> (id % 32) & 1 == 1;
        let x = logits[row + id as usize];
        if allowed && !x.is_nan() && best.is_none_or(|(_, b)| x > b) {
            best = Some((id, x));
        }
    }
    chosen[params.slot as usize] = best.map_or(NONE, |b| b.0);
}
