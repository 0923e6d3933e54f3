use super::weight_at;
use crate::MatmulParams;

/// `y[t][row_begin + r] = dot(weights[r], x[t]) (+ bias[row_begin + r])`, summed in f64; `weights` in tiles.
pub fn matmul(params: &MatmulParams, weights: &[f32], x: &[f32], bias: &[f32], y: &mut [f32]) {
    let cols = params.cols as usize;
    for t in 0..params.tokens as usize {
        for r in 0..params.rows as usize {
            let out = params.row_begin as usize + r;
            let mut sum = 0.0f64;
            for k in 0..cols {
                sum += f64::from(weights[weight_at(r, k, cols)]) * f64::from(x[t * cols + k]);
            }
            if params.has_bias == 1 {
                sum += f64::from(bias[out]);
            }
            y[t * params.stride as usize + out] = sum as f32;
        }
    }
}
