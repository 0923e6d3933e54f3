//! Choosing a token from logits on the host; the GPU's kernels follow the same steps.

use super::{Mask, Selection};

/// How a token is chosen. The default is greedy.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerParams {
    /// 0 is greedy: the largest logit, the lowest id among equals.
    pub temperature: f32,
    /// Keep the `top_k` largest; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set whose probability reaches `top_p`; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens whose probability is at least `min_p` times the largest; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the history (arXiv:1909.05858); 1 is off.
    pub repetition_penalty: f32,
    /// How many of the last tokens the penalty looks at.
    pub repetition_window: u32,
}

impl Default for SamplerParams {
    fn default() -> Self {
        SamplerParams {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 64,
        }
    }
}

/// Chooses a token. `None` if the mask allows none of `logits`' ids. `logits: [vocab]` is used as scratch.
pub fn sample(logits: &mut [f32], selection: &Selection<'_>) -> Option<u32> {
    let p = selection.params;
    penalize(logits, selection.history, p.repetition_penalty);
    if p.temperature <= 0.0 {
        return argmax(logits, selection.mask);
    }
    let mut candidates: Vec<(u32, f32)> = logits
        .iter()
        .enumerate()
        .filter(|(id, x)| selection.mask.is_none_or(|m| m.allows(*id as u32)) && !x.is_nan())
        .map(|(id, x)| (id as u32, *x))
        .collect();
    // Equal logits go by id, so that the order (and with it the draw) is the same everywhere.
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let top_k = p.top_k as usize;
    if top_k > 0 && top_k < candidates.len() {
        // Sorting a whole vocabulary takes milliseconds.
        candidates.select_nth_unstable_by(top_k - 1, order);
        candidates.truncate(top_k);
    }
    candidates.sort_unstable_by(order);
    let best = candidates.first()?.1;
    for c in &mut candidates {
        c.1 = lean_kernels::math::exp((c.1 - best) / p.temperature);
    }
    if p.min_p > 0.0 {
        let keep = candidates.partition_point(|c| c.1 >= p.min_p);
        candidates.truncate(keep.max(1));
    }
    if p.top_p < 1.0 {
        truncate_top_p(&mut candidates, p.top_p);
    }
    Some(draw(&candidates, selection.random))
}

fn penalize(logits: &mut [f32], history: &[u32], penalty: f32) {
    if penalty == 1.0 {
        return;
    }
    let mut seen: Vec<u32> = history.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        if let Some(x) = logits.get_mut(id as usize) {
            *x = if *x > 0.0 { *x / penalty } else { *x * penalty };
        }
    }
}

fn argmax(logits: &[f32], mask: Option<&Mask>) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (id, &x) in logits.iter().enumerate() {
        if mask.is_some_and(|m| !m.allows(id as u32)) || x.is_nan() {
            continue;
        }
        if best.is_none_or(|(_, b)| x > b) {
            best = Some((id as u32, x));
        }
    }
    best.map(|b| b.0)
}

fn truncate_top_p(candidates: &mut Vec<(u32, f32)>, top_p: f32) {
    let total: f32 = candidates.iter().map(|c| c.1).sum();
    let mut sum = 0.0;
    let keep = candidates.iter().position(|c| {
        sum += c.1;
        sum >= top_p * total
    });
    candidates.truncate(keep.map_or(candidates.len(), |k| k + 1));
}

fn draw(candidates: &[(u32, f32)], random: u32) -> u32 {
    let total: f32 = candidates.iter().map(|c| c.1).sum();
    let target = (random as f64 / (1u64 << 32) as f64) as f32 * total;
    let mut sum = 0.0;
    for c in candidates {
        sum += c.1;
        if sum > target {
            return c.0;
        }
    }
    candidates[candidates.len() - 1].0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(logits: &[f32], params: &SamplerParams, history: &[u32], random: u32) -> Option<u32> {
        sample(&mut logits.to_vec(), &Selection { params, history, random, mask: None })
    }

    #[test]
    fn greedy_takes_the_lowest_of_equals_and_no_nan() {
        let greedy = SamplerParams::default();
        assert_eq!(pick(&[f32::NAN, 1.0, 3.0, 3.0], &greedy, &[], 0), Some(2));
        assert_eq!(pick(&[f32::NAN], &greedy, &[], 0), None);
        let penalty = SamplerParams { repetition_penalty: 2.0, ..greedy };
        assert_eq!(pick(&[-1.0, 1.0, 3.0, 2.0], &penalty, &[2, 2], 0), Some(3));
    }

    #[test]
    fn the_draw_walks_down_from_the_likeliest() {
        let logits = [0.0, 2.0, 1.0, 2.0];
        let base = SamplerParams { temperature: 1.0, ..Default::default() };
        // Probabilities 0.399, 0.399, 0.147, 0.054 of tokens 1, 3, 2, 0.
        let at = |share: f64| (share * 4294967296.0) as u32;
        for (share, want) in
            [(0.0, 1), (0.39, 1), (0.41, 3), (0.79, 3), (0.81, 2), (0.94, 2), (0.96, 0), (0.9999, 0)]
        {
            assert_eq!(pick(&logits, &base, &[], at(share)), Some(want), "{share}");
        }
        for (params, last) in [
            (SamplerParams { top_k: 1, ..base.clone() }, 1),
            (SamplerParams { top_k: 2, ..base.clone() }, 3),
            (SamplerParams { top_k: 9, ..base.clone() }, 0),
            (SamplerParams { top_p: 0.5, ..base.clone() }, 3),
            (SamplerParams { top_p: 0.9, ..base.clone() }, 2),
            (SamplerParams { min_p: 0.3, ..base.clone() }, 2),
            (SamplerParams { min_p: 0.5, ..base.clone() }, 3),
        ] {
            assert_eq!(pick(&logits, &params, &[], u32::MAX), Some(last), "{params:?}");
        }
    }

    #[test]
    fn top_k_is_a_prefix_of_the_full_order() {
        let logits: Vec<f32> = (0..200u32).map(|i| (i.wrapping_mul(2654435761) >> 28) as f32).collect();
        let all = SamplerParams { temperature: 0.5, ..Default::default() };
        let best = pick(&logits, &all, &[], 0);
        for top_k in [1, 2, 20, 199, 200, 1000] {
            assert_eq!(pick(&logits, &SamplerParams { top_k, ..all.clone() }, &[], 0), best);
        }
    }
}
