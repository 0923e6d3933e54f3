//! Rotary position embedding.

use crate::math;

/// Which two elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// Elements `2i` and `2i + 1` (GGUF files of the llama family).
    Adjacent,
    /// Elements `i` and `i + rotary/2` (GPT-NeoX style: qwen2, qwen3, lfm2, gemma3).
    Halves,
}

/// Fills the cosines and sines of position `position`, both `[inv_freq.len()]`.
pub fn angles(inv_freq: &[f32], position: usize, cos: &mut [f32], sin: &mut [f32]) {
    for ((f, cos), sin) in inv_freq.iter().zip(cos).zip(sin) {
        // The angle is rounded to float32, as in the models' own code.
        (*sin, *cos) = math::sin_cos(position as f32 * f);
    }
}

/// Rotates one head in place; elements beyond the rotated ones stay as they are.
pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let half = cos.len();
    match style {
        RopeStyle::Adjacent => {
            for ((pair, c), s) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
                let (a, b) = (pair[0], pair[1]);
                pair[0] = a * c - b * s;
                pair[1] = b * c + a * s;
            }
        }
        RopeStyle::Halves => {
            let (first, second) = head.split_at_mut(half);
            for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
    }
}
