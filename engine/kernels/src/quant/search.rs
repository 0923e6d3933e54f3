//! The searches behind the K formats: their blocks store one scale (and minimum) for 16 or 32 numbers, and choosing it
//! well halves the error. Both searches try a few grids and fit each by least squares; the best fit is kept.

/// Grids that are tried: `levels + first`, `levels + first + STEP`, ... steps over the range of the numbers.
pub struct Grids {
    pub first: f32,
    pub count: usize,
}

/// Distance of two grids, in levels.
const STEP: f32 = 0.1;
/// How far to both sides of the plain grid [`symmetric`] looks, in steps.
const AROUND: i32 = 9;

/// Scale and minimum of `x = scale * q - min` with `q` in `0 ..= levels`; neither is negative. Numbers count for the
/// error by their magnitude on top of their root mean square: large weights matter more.
pub fn affine(values: &[f32], levels: u8, grids: &Grids) -> (f32, f32) {
    // A minimum above zero cannot be stored.
    let low = values.iter().fold(0.0, |m: f32, &x| m.min(x));
    let high = values.iter().fold(f32::MIN, |m: f32, &x| m.max(x));
    if high <= low {
        return (0.0, -low);
    }
    let rms = (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
    let levels = f32::from(levels);
    let plain = (high - low) / levels;
    let mut best = (plain, -low);
    let mut least = f64::INFINITY;
    for k in 0..=grids.count {
        // The first is the plain grid.
        let offset = if k == 0 { 0.0 } else { grids.first + STEP * (k - 1) as f32 };
        let inverse = (levels + offset) / (high - low);
        let mut sums = Sums::default();
        for &x in values {
            let q = (inverse * (x - low)).round_ties_even().clamp(0.0, levels);
            sums.add(rms + x.abs(), x, q);
        }
        let Some(fit) = sums.fit() else { continue };
        let error = sums.error(fit);
        if error < least {
            (least, best) = (error, (fit.0 as f32, fit.1 as f32));
        }
    }
    best
}

/// Weighted sums of a fit. Differences of large sums count here, hence float64.
#[derive(Default)]
struct Sums {
    w: f64,
    x: f64,
    q: f64,
    xx: f64,
    xq: f64,
    qq: f64,
}

impl Sums {
    fn add(&mut self, w: f32, x: f32, q: f32) {
        let (w, x, q) = (f64::from(w), f64::from(x), f64::from(q));
        self.w += w;
        self.x += w * x;
        self.q += w * q;
        self.xx += w * x * x;
        self.xq += w * x * q;
        self.qq += w * q * q;
    }

    /// Least squares for `x = scale * q - min`, with `min` at least 0.
    fn fit(&self) -> Option<(f64, f64)> {
        let determinant = self.w * self.qq - self.q * self.q;
        if determinant <= 0.0 {
            return None;
        }
        let scale = (self.w * self.xq - self.x * self.q) / determinant;
        let min = (self.q * self.xq - self.qq * self.x) / determinant;
        let (scale, min) = if min < 0.0 { (self.xq / self.qq, 0.0) } else { (scale, min) };
        (scale > 0.0).then_some((scale, min))
    }

    /// `sum w (scale q - min - x)^2`.
    fn error(&self, (scale, min): (f64, f64)) -> f64 {
        scale * scale * self.qq + min * min * self.w + self.xx - 2.0 * scale * (min * self.q + self.xq)
            + 2.0 * min * self.x
    }
}

/// Scale (of either sign) of `x = scale * q` with `q` in `-levels .. levels`. Numbers count by their square.
pub fn symmetric(values: &[f32], levels: u8) -> f32 {
    let extreme = super::quantize::extreme(values);
    let levels = f32::from(levels);
    let (mut best, mut most) = (0.0, 0.0);
    if extreme.abs() < f32::MIN_POSITIVE {
        return best;
    }
    for k in -AROUND..=AROUND {
        // The extreme number takes the end of the grid that has one step more.
        let inverse = -(levels + STEP * k as f32) / extreme;
        let (mut xq, mut qq) = (0.0f32, 0.0f32);
        for &x in values {
            let q = (inverse * x).round_ties_even().clamp(-levels, levels - 1.0);
            let w = x * x;
            xq += w * x * q;
            qq += w * q * q;
        }
        // The error that a fit removes is xq^2 / qq.
        if qq > 0.0 && xq * xq > most * qq {
            (most, best) = (xq * xq / qq, xq / qq);
        }
    }
    best
}
