use crate::{LowrankInParams, LowrankOutParams};

/// `low[t][k] = dot(a[k], x[first + t])` for `tokens` tokens, in f64.
pub fn lowrank_in(params: &LowrankInParams, tokens: usize, a: &[f32], x: &[f32], low: &mut [f32]) {
    let (cols, rank) = (4 * params.width as usize, params.rank as usize);
    for t in 0..tokens {
        let x = &x[(params.first as usize + t) * cols..][..cols];
        for k in 0..rank {
            let row = &a[k * cols..][..cols];
            low[t * rank + k] =
                row.iter().zip(x).map(|(a, x)| f64::from(*a) * f64::from(*x)).sum::<f64>() as f32;
        }
    }
}

/// `y[first + t][offset + each * r] += factor * sum of b[k][r] * low[t][k]` for `tokens` tokens, in f64.
pub fn lowrank_out(params: &LowrankOutParams, tokens: usize, b: &[f32], low: &[f32], y: &mut [f32]) {
    let (rows, rank) = (params.rows as usize, params.rank as usize);
    for t in 0..tokens {
        for r in 0..rows {
            let term = |k: usize| f64::from(b[k * rows + r]) * f64::from(low[t * rank + k]);
            let sum: f64 = (0..rank).map(term).sum();
            let at = (params.first as usize + t) * params.stride as usize + params.offset as usize;
            y[at + params.each as usize * r] += (f64::from(params.factor) * sum) as f32;
        }
    }
}
