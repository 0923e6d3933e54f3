use crate::QuantiseParams;

/// Elements of a group, words of its quantised form, and the largest integer.
const GROUP: usize = 32;
const WORDS: usize = 28;
const LARGEST: f64 = 2_088_959.0;

/// Activations `[token][groups * 32]` as the kernel writes them, where they are normed first if there is a `norm`.
pub fn quantise(params: &QuantiseParams, x: &[f32], norm: Option<&[f32]>) -> Vec<u32> {
    let groups = params.groups as usize;
    let cols = GROUP * groups;
    let mut words = vec![0u32; x.len() / GROUP * WORDS];
    for (x, words) in x.chunks_exact(cols).zip(words.chunks_exact_mut(WORDS * groups)) {
        let mut values: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
        let mut factor = 1.0;
        if let Some(norm) = norm {
            let mean = values.iter().map(|v| v * v).sum::<f64>() / cols as f64;
            factor = 1.0 / (mean + f64::from(params.eps)).sqrt();
            values.iter_mut().zip(norm).for_each(|(v, n)| *v *= f64::from(*n));
        }
        for (g, values) in values.chunks_exact(GROUP).enumerate() {
            let most = values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            let step = if most > 1e-30 { LARGEST / most } else { 0.0 };
            let integers: Vec<i32> = values.iter().map(|v| (v * step).round() as i32).collect();
            let mut put = |vector: usize, k: usize, word: u32| words[4 * (vector * groups + g) + k] = word;
            for side in 0..2 {
                for k in 0..4 {
                    let four = &integers[16 * side + 4 * k..][..4];
                    for (plane, of) in [top, mid, low].into_iter().enumerate() {
                        let bytes = [of(four[0]), of(four[1]), of(four[2]), of(four[3])];
                        put(2 * plane + side, k, u32::from_le_bytes(bytes.map(|b| b as u8)));
                    }
                }
            }
            put(6, 0, ((factor * most / LARGEST) as f32).to_bits());
            put(6, 1, integers[..16].iter().sum::<i32>() as u32);
            put(6, 2, integers[16..].iter().sum::<i32>() as u32);
        }
    }
    words
}

/// What the words stand for, `[token][groups * 32]`.
pub fn quantised(groups: usize, words: &[u32]) -> Vec<f32> {
    let mut values = Vec::new();
    for words in words.chunks_exact(WORDS * groups) {
        for g in 0..groups {
            let at = |vector: usize, k: usize| words[4 * (vector * groups + g) + k];
            let scale = f64::from(f32::from_bits(at(6, 0)));
            for e in 0..GROUP {
                let byte =
                    |plane: usize| f64::from(at(2 * plane + e / 16, e % 16 / 4).to_le_bytes()[e % 4] as i8);
                values.push((scale * ((byte(0) * 128.0 + byte(1)) * 128.0 + byte(2))) as f32);
            }
        }
    }
    values
}

fn top(q: i32) -> i32 {
    (q + 8192) >> 14
}

fn mid(q: i32) -> i32 {
    (q - (top(q) << 14) + 64) >> 7
}

fn low(q: i32) -> i32 {
    q - (top(q) << 14) - (mid(q) << 7)
}
