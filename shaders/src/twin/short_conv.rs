use crate::{Facts, ShortConvParams};

/// Gated short convolution: `u = B * x`, `y[t] = C[t] * sum_j kernel[j] * u[t - (taps - 1) + j]`; also writes the
/// window after the batch and those before every page's first token. `projected: [tokens][B | C | x]`,
/// `kernel: [channels][taps]`, `windows`, `pages: [entry][taps - 1][channels]`.
#[allow(clippy::too_many_arguments)]
pub fn short_conv(
    page_tokens: usize,
    params: &ShortConvParams,
    facts: &Facts,
    projected: &[f32],
    kernel: &[f32],
    windows: &mut [f32],
    pages: &mut [f32],
    y: &mut [f32],
) {
    let (channels, taps) = (params.channels as usize, params.taps as usize);
    let rows = taps - 1;
    let (tokens, table) = (&facts.tokens, &facts.table);
    for slot in &facts.slots {
        // u of the window and then of the batch, [rows + count][channels].
        let from = slot.window_in as usize * rows * channels;
        let mut u = windows[from..from + rows * channels].to_vec();
        let (first, count) = (slot.first as usize, slot.count as usize);
        for t in first..first + count {
            let row = &projected[t * 3 * channels..][..3 * channels];
            u.extend((0..channels).map(|c| row[c] * row[2 * channels + c]));
        }
        for i in 0..count {
            let t = first + i;
            for c in 0..channels {
                let sum: f32 = (0..taps).map(|j| kernel[c * taps + j] * u[(i + j) * channels + c]).sum();
                y[t * channels + c] = projected[t * 3 * channels + channels + c] * sum;
            }
            let position = tokens[t].position as usize;
            if position.is_multiple_of(page_tokens) {
                let page = table[tokens[t].table as usize + position / page_tokens] as usize;
                pages[page * rows * channels..][..rows * channels]
                    .copy_from_slice(&u[i * channels..][..rows * channels]);
            }
        }
        windows[slot.window_out as usize * rows * channels..][..rows * channels]
            .copy_from_slice(&u[count * channels..][..rows * channels]);
    }
}
