use crate::{EmbedParams, CHOSEN};

/// `h[t] = weights[id] * scale` for the ids whose row lies in `row_begin..row_end`; ids beyond the vocabulary read its
/// last row. `h: [tokens][hidden]`, `weights: [row_end - row_begin][hidden]`.
pub fn embed(params: &EmbedParams, ids: &[u32], chosen: &[u32], weights: &[f32], h: &mut [f32]) {
    let hidden = 32 * params.groups as usize;
    for (t, id) in ids.iter().take(params.tokens as usize).enumerate() {
        let id = if id & CHOSEN == 0 { *id } else { chosen[(id & !CHOSEN) as usize] };
        let id = id.min(params.vocab - 1);
        if id < params.row_begin || id >= params.row_end {
            continue;
        }
        let row = (id - params.row_begin) as usize;
        for i in 0..hidden {
            h[t * hidden + i] = weights[row * hidden + i] * params.scale;
        }
    }
}
