use crate::ProductParams;

/// The sums `W x` of a token's row, with the norm where the kernel applies one, in f64.
fn sums(params: &ProductParams, weights: &[f32], x: &[f32], norm: Option<&[f32]>) -> Vec<f64> {
    let cols = 32 * params.groups as usize;
    let mut factor = 1.0;
    let mut x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    if let Some(norm) = norm {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / cols as f64;
        factor = 1.0 / (mean + f64::from(params.eps)).sqrt();
        x.iter_mut().zip(norm).for_each(|(x, n)| *x *= f64::from(*n));
    }
    let dot = |row: &[f32]| factor * row.iter().zip(&x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
    weights.chunks_exact(cols).take(params.rows as usize).map(dot).collect()
}

/// `y` becomes the sums plus bias, has them added, or becomes `act(even) * odd` of pairs of rows, as `mode` says.
pub fn matvec(
    params: &ProductParams,
    weights: &[f32],
    x: &[f32],
    norm: Option<&[f32]>,
    bias: &[f32],
    y: &mut [f32],
) {
    let cols = 32 * params.groups as usize;
    let begin = params.row_begin as usize;
    for t in 0..params.tokens as usize {
        let mut sums = sums(params, weights, &x[t * cols..][..cols], norm);
        if params.has_bias == 1 {
            sums.iter_mut().zip(&bias[begin..]).for_each(|(s, b)| *s += f64::from(*b));
        }
        let y = &mut y[t * params.stride as usize..];
        match params.mode {
            0 => sums.iter().zip(&mut y[begin..]).for_each(|(s, y)| *y = *s as f32),
            1 => sums.iter().zip(&mut y[begin..]).for_each(|(s, y)| *y += *s as f32),
            mode => {
                for (pair, y) in sums.chunks_exact(2).zip(&mut y[begin / 2..]) {
                    *y = (super::gate::activate(mode == 3, pair[0]) * pair[1]) as f32;
                }
            }
        }
    }
}

/// The same for several tokens at a time.
pub fn matvec4(
    params: &ProductParams,
    weights: &[f32],
    x: &[f32],
    norm: Option<&[f32]>,
    bias: &[f32],
    y: &mut [f32],
) {
    matvec(params, weights, x, norm, bias, y);
}

/// The same for many tokens, whose norm was taken before.
pub fn gemm(params: &ProductParams, weights: &[f32], x: &[f32], bias: &[f32], y: &mut [f32]) {
    matvec(params, weights, x, None, bias, y);
}
