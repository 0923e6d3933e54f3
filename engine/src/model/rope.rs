//! Inverse frequencies of rotary position embeddings.

use super::hyper::Hyper;
use super::plan::{Rope, RopeStyle};
use crate::error::{Error, Result};
use crate::gguf::Gguf;
use crate::quant::{dequantize_row, DType};

/// The tensor that carries Llama 3's scaling: a divisor for each inverse frequency.
pub(super) const FACTORS: &str = "rope_freqs.weight";

/// `base^(-2i/d)` for `i` in `0 .. d/2`, rounded as float32 frameworks do it: the exponent, the power and its
/// reciprocal each to float32.
pub(super) fn inverse_frequencies(base: f32, rotary: usize) -> Vec<f32> {
    let power = |i: usize| libm::pow(base.into(), f64::from((2 * i) as f32 / rotary as f32)) as f32;
    (0..rotary / 2).map(|i| 1.0 / power(i)).collect()
}

/// The base of the original llama, where the key is absent.
const DEFAULT_BASE: f32 = 10_000.0;

/// The rope that the keys under `rope.` and a tensor [`FACTORS`] describe.
pub(super) fn from_keys(gguf: &Gguf, hyper: &Hyper<'_>, head_dim: usize, style: RopeStyle) -> Result<Rope> {
    from_keys_with(gguf, hyper, head_dim, style, DEFAULT_BASE)
}

/// As [`from_keys`], with another base where `rope.freq_base` is absent.
pub(super) fn from_keys_with(
    gguf: &Gguf,
    hyper: &Hyper<'_>,
    head_dim: usize,
    style: RopeStyle,
    default_base: f32,
) -> Result<Rope> {
    let rotary = rotary(hyper, head_dim)?;
    let base = hyper.opt_positive("rope.freq_base")?.unwrap_or(default_base);
    let mut inv_freq = inverse_frequencies(base, rotary);
    let scale = linear_scale(hyper)?;
    inv_freq.iter_mut().for_each(|f| *f /= scale);
    if gguf.tensors.contains_key(FACTORS) {
        for (f, factor) in inv_freq.iter_mut().zip(factors(gguf, hyper, rotary)?) {
            *f /= factor;
        }
    }
    Ok(Rope { style, inv_freq: inv_freq.into() })
}

/// Elements of a head that rotate.
pub(super) fn rotary(hyper: &Hyper<'_>, head_dim: usize) -> Result<usize> {
    let n = hyper.opt_size("rope.dimension_count", 2..=head_dim)?.unwrap_or(head_dim);
    if n % 2 != 0 {
        return Err(hyper.bad("rope.dimension_count", format_args!("{n} is odd")));
    }
    Ok(n)
}

/// Positions are divided by this (arXiv:2306.15595).
pub(super) fn linear_scale(hyper: &Hyper<'_>) -> Result<f32> {
    match hyper.opt_str("rope.scaling.type")? {
        Some("none") => Ok(1.0),
        Some("linear") | None => Ok(hyper.opt_positive("rope.scaling.factor")?.unwrap_or(1.0)),
        Some(other) => {
            let reason = format!("{} is not supported; none and linear are", other.escape_debug());
            Err(hyper.unsupported("rope.scaling.type", reason))
        }
    }
}

fn factors(gguf: &Gguf, hyper: &Hyper<'_>, rotary: usize) -> Result<Vec<f32>> {
    let what = format!("architecture {}: tensor {FACTORS}", hyper.arch);
    let info = gguf.tensor(FACTORS)?;
    if info.dtype != Some(DType::F32) {
        return Err(Error::unsupported(
            what,
            format_args!("its type is {}; F32 is needed here", info.type_name()),
        ));
    }
    if info.elements() != rotary as u64 / 2 {
        return Err(Error::bad_model(
            what,
            format_args!("its shape is {:?}, expected [{}]", info.dims, rotary / 2),
        ));
    }
    let mut factors = vec![0.0; rotary / 2];
    dequantize_row(DType::F32, &gguf.read(FACTORS)?, &mut factors)?;
    match factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
        Some(f) => Err(Error::bad_model(what, format_args!("{f} is not a number above zero"))),
        None => Ok(factors),
    }
}
