// How one token is chosen.
struct ChoiceParams {
    vocab: u32,
    // Row of the logits to look at.
    row: u32,
    // Where to put the id.
    slot: u32,
    // 1: only ids whose bit is set in the mask.
    masked: u32,
    // Ids under the penalty.
    history: u32,
    penalty: f32,
}

const NONE: u32 = 0xffffffffu;
