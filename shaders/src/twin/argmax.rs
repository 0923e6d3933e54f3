use crate::ChoiceParams;

/// What is chosen when nothing is allowed.
pub const NONE: u32 = u32::MAX;

/// Ids of a part.
pub const PART: u32 = 1024;

/// Of each part of a row, the bits of the largest allowed logit and its id, the lowest among equals; NaN is never
/// chosen.
pub fn argmax_parts(params: &ChoiceParams, logits: &[f32], mask: &[u32], parts: &mut [u32]) {
    let row = (params.row * params.vocab) as usize;
    for part in 0..params.vocab.div_ceil(PART) {
        let mut best: Option<(u32, f32)> = None;
        for id in part * PART..params.vocab.min((part + 1) * PART) {
            let allowed = params.masked == 0 || mask[id as usize / 32] >> (id % 32) & 1 == 1;
            let x = logits[row + id as usize];
            if allowed && !x.is_nan() && best.is_none_or(|(_, b)| x > b) {
                best = Some((id, x));
            }
        }
        let at = 2 * part as usize;
        parts[at] = best.map_or(0, |b| b.1.to_bits());
        parts[at + 1] = best.map_or(NONE, |b| b.0);
    }
}

/// `chosen[slot]` = the id of the best part.
pub fn argmax(params: &ChoiceParams, parts: &[u32], chosen: &mut [u32]) {
    let mut best: Option<(u32, f32)> = None;
    for part in parts.chunks_exact(2).take(params.vocab.div_ceil(PART) as usize) {
        let (x, id) = (f32::from_bits(part[0]), part[1]);
        if id != NONE && best.is_none_or(|(_, b)| x > b) {
            best = Some((id, x));
        }
    }
    chosen[params.slot as usize] = best.map_or(NONE, |b| b.0);
}
