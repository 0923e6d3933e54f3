use crate::MergeParams;

/// Puts parts together. `parts: [heads][parts]` of `head_dim` elements, then best, total and two of no meaning; one
/// whose total is 0 counts for nothing.
pub fn attention_merge(head_dim: usize, params: &MergeParams, parts: &[f32], y: &mut [f32]) {
    let of_head = params.parts as usize * (head_dim + 4);
    for (parts, y) in parts.chunks_exact(of_head).zip(y.chunks_exact_mut(head_dim)) {
        let parts: Vec<&[f32]> = parts.chunks_exact(head_dim + 4).filter(|p| p[head_dim + 1] > 0.0).collect();
        let best = parts.iter().map(|p| f64::from(p[head_dim])).fold(f64::NEG_INFINITY, f64::max);
        let share = |p: &[f32]| (f64::from(p[head_dim]) - best).exp();
        let total: f64 = parts.iter().map(|p| share(p) * f64::from(p[head_dim + 1])).sum();
        for (d, y) in y.iter_mut().enumerate() {
            *y = (parts.iter().map(|p| share(p) * f64::from(p[d])).sum::<f64>() / total) as f32;
        }
    }
}
