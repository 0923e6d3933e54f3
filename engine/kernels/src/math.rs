//! Elementary functions with one result on every machine.
//!
//! The platform's libm differs between targets, and a result that depends on it could not be bit-identical
//! within an exactness class. These use only IEEE add, multiply and bit operations in a fixed order (the
//! compiler never contracts them), so that they also vectorise.

/// `e^x` in float32, at most 2 ulp off; 0 below -87.3, +inf above 88.7.
///
/// Range reduction by `x = n ln 2 + r`, then a degree-6 polynomial (Cephes `expf`).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // NaN passes through the clamp's comparisons; infinities are cut to the range that overflows correctly.
    let c = x.clamp(-104.0, 89.0);
    let n = (c * std::f32::consts::LOG2_E + 12_582_912.0) - 12_582_912.0;
    let r = c - n * 0.693_359_4;
    let r = r - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5.000_000_3e-1;
    p = p * (r * r) + r + 1.0;
    // Scaled in two steps, since 2^n alone may leave the normal range.
    let n = n as i32;
    let half = n >> 1;
    p * pow2(half) * pow2(n - half)
}

#[inline(always)]
fn pow2(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let y = 0.797_884_6 * (x + 0.044715 * x * x * x);
    // tanh(y) = 1 - 2 / (1 + e^(2y)), so that 0.5 (1 + tanh(y)) = 1 - 1 / (1 + e^(2y)).
    x * (1.0 - 1.0 / (1.0 + exp(2.0 * y)))
}

/// `(sin x, cos x)` of a float32 angle, correctly rounded in nearly all cases, the same on every target.
pub fn sin_cos(x: f32) -> (f32, f32) {
    let (s, c) = libm::sincos(f64::from(x));
    (s as f32, c as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_range() {
        for i in -10_300..8_800 {
            let x = i as f32 / 100.0;
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - want).abs() <= want * 3e-7 + 2e-45, "exp({x}) = {got}, wanted {want}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
