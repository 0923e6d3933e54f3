use crate::RmsNormParams;

/// `y[r] = x[r] * rsqrt(mean(x[r]^2) + eps) * weight`, statistics in f64; with `add`, the kernel's constant, `y += `.
pub fn rms_norm(add: bool, params: &RmsNormParams, x: &[f32], weight: &[f32], y: &mut [f32]) {
    let cols = params.cols as usize;
    for r in 0..params.rows as usize {
        let row = &x[r * cols..][..cols];
        let mean = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / cols as f64;
        let factor = 1.0 / (mean + f64::from(params.eps)).sqrt();
        for i in 0..cols {
            let value = (f64::from(row[i]) * factor * f64::from(weight[i])) as f32;
            let y = &mut y[r * cols + i];
            *y = if add { *y + value } else { value };
        }
    }
}
