use super::weight_at;
use crate::EmbedParams;

/// `h[t] = weights[ids[t]] * scale` for the ids whose row lies in `row_begin..row_end`; ids beyond the
/// vocabulary read its last row. `h: [tokens][hidden]`, `weights: [row_end - row_begin][hidden]` in tiles.
pub fn embed(params: &EmbedParams, ids: &[u32], weights: &[f32], h: &mut [f32]) {
    let hidden = params.hidden as usize;
    for (t, id) in ids.iter().take(params.tokens as usize).enumerate() {
        let id = (*id).min(params.vocab - 1);
        if id < params.row_begin || id >= params.row_end {
            continue;
        }
        let row = (id - params.row_begin) as usize;
        for i in 0..hidden {
            h[t * hidden + i] = weights[weight_at(row, i, hidden)] * params.scale;
        }
    }
}
