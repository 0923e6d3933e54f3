//! Hyper-parameters under an architecture's prefix, read within bounds.

use crate::error::{Error, Result};
use crate::gguf::{Gguf, Metadata};
use std::ops::RangeInclusive;

/// Bounds of what a model may ask for, several times what any published model has; they keep products of
/// these numbers far from overflow on 64-bit machines.
const LAYERS: RangeInclusive<usize> = 1..=1024;
const WIDTH: RangeInclusive<usize> = 1..=1 << 17;
const FFN_WIDTH: RangeInclusive<usize> = 1..=1 << 20;
const HEADS: RangeInclusive<usize> = 1..=2048;
const HEAD_DIM: RangeInclusive<usize> = 2..=1024;
const CONTEXT: RangeInclusive<usize> = 1..=1 << 24;

/// Access to `<architecture>.<key>`.
pub(super) struct Hyper<'a> {
    pub(super) arch: &'static str,
    metadata: &'a Metadata,
}

/// What every transformer of the registry has.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) ffn: usize,
    pub(super) context_length: usize,
    pub(super) n_heads: usize,
    pub(super) head_dim: usize,
    pub(super) eps: f32,
}

impl<'a> Hyper<'a> {
    pub(super) fn new(gguf: &'a Gguf, arch: &'static str) -> Self {
        Hyper { arch, metadata: &gguf.metadata }
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    pub(super) fn size(&self, key: &str, bounds: RangeInclusive<usize>) -> Result<usize> {
        let n = self.metadata.u32(&self.key(key))?;
        self.bounded(key, n, bounds)
    }

    pub(super) fn opt_size(&self, key: &str, bounds: RangeInclusive<usize>) -> Result<Option<usize>> {
        self.metadata.opt_u32(&self.key(key))?.map(|n| self.bounded(key, n, bounds)).transpose()
    }

    fn bounded(&self, key: &str, n: u32, bounds: RangeInclusive<usize>) -> Result<usize> {
        let n = n as usize;
        if bounds.contains(&n) {
            return Ok(n);
        }
        Err(self.bad(key, format_args!("{n} is not within {} to {}", bounds.start(), bounds.end())))
    }

    /// A finite number above zero.
    pub(super) fn opt_positive(&self, key: &str) -> Result<Option<f32>> {
        match self.metadata.opt_f32(&self.key(key))? {
            Some(x) if !(x.is_finite() && x > 0.0) => {
                Err(self.bad(key, format_args!("{x} is not a number above zero")))
            }
            x => Ok(x),
        }
    }

    pub(super) fn opt_number(&self, key: &str) -> Result<Option<f32>> {
        self.metadata.opt_f32(&self.key(key))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.metadata.get(&self.key(key)).is_some()
    }

    pub(super) fn opt_str(&self, key: &str) -> Result<Option<&'a str>> {
        self.metadata.opt_str(&self.key(key))
    }

    /// One number a layer from an array of that many, or the same number for all.
    pub(super) fn per_layer(&self, key: &str, layers: usize) -> Result<Vec<usize>> {
        let full = self.key(key);
        let Ok(list) = self.metadata.ints(&full) else {
            let n = self.metadata.u32(&full)?;
            return Ok(vec![n as usize; layers]);
        };
        if list.len() != layers {
            return Err(self.bad(key, format_args!("{} numbers for {layers} layers", list.len())));
        }
        let size = |&n: &i64| usize::try_from(n).map_err(|_| self.bad(key, format_args!("{n} is negative")));
        list.iter().map(size).collect()
    }

    pub(super) fn bad(&self, key: &str, reason: impl std::fmt::Display) -> Error {
        Error::bad_model(format_args!("metadata {}", self.key(key)), reason)
    }

    pub(super) fn unsupported(&self, key: &str, reason: impl std::fmt::Display) -> Error {
        Error::unsupported(format_args!("architecture {}: {}", self.arch, self.key(key)), reason)
    }

    /// Reads what all architectures share, and refuses variants that would silently be computed wrongly.
    pub(super) fn common(&self) -> Result<Common> {
        self.refuse_variants()?;
        let hidden = self.size("embedding_length", WIDTH)?;
        let n_heads = self.size("attention.head_count", HEADS)?;
        Ok(Common {
            layers: self.size("block_count", LAYERS)?,
            hidden,
            ffn: self.size("feed_forward_length", FFN_WIDTH)?,
            context_length: self.size("context_length", CONTEXT)?,
            n_heads,
            head_dim: self.head_dim(hidden, n_heads)?,
            eps: self
                .opt_positive("attention.layer_norm_rms_epsilon")?
                .ok_or_else(|| self.bad("attention.layer_norm_rms_epsilon", "missing"))?,
        })
    }

    /// `key_length`, else an equal share of the width, else what rotates.
    fn head_dim(&self, hidden: usize, n_heads: usize) -> Result<usize> {
        let key_length = self.opt_size("attention.key_length", HEAD_DIM)?;
        let rotary = self.opt_size("rope.dimension_count", HEAD_DIM)?;
        let share = (hidden % n_heads == 0).then_some(hidden / n_heads);
        let found = key_length.or(share).or(rotary);
        let d = found.ok_or_else(|| {
            self.bad("attention.key_length", "missing, and the width is no multiple of the heads")
        })?;
        if !HEAD_DIM.contains(&d) || d % 2 != 0 {
            return Err(
                self.bad("attention.key_length", format_args!("a head of {d} elements is not possible"))
            );
        }
        let value = self.opt_size("attention.value_length", HEAD_DIM)?;
        if value.is_some_and(|v| v != d) {
            return Err(
                self.unsupported("attention.value_length", format_args!("differs from the key's {d}"))
            );
        }
        Ok(d)
    }

    fn refuse_variants(&self) -> Result<()> {
        if self.metadata.opt_u32(&self.key("expert_count"))?.unwrap_or(0) > 0 {
            return Err(self.unsupported("expert_count", "mixtures of experts are not supported"));
        }
        if self.metadata.opt_bool(&self.key("attention.causal"))? == Some(false) {
            return Err(self.unsupported("attention.causal", "only causal attention is supported"));
        }
        // Converters write it for models that were made to embed texts.
        if self.metadata.opt_u32(&self.key("pooling_type"))?.unwrap_or(0) > 0 {
            let reason = "a model for embeddings; only models that generate text are supported";
            return Err(self.unsupported("pooling_type", reason));
        }
        Ok(())
    }

    /// A window that the architecture's plan would ignore.
    pub(super) fn refuse_window(&self, c: &Common) -> Result<()> {
        match self.opt_size("attention.sliding_window", 0..=usize::MAX)? {
            Some(w) if w > 0 && w < c.context_length => {
                Err(self.unsupported("attention.sliding_window", "not supported in this architecture"))
            }
            _ => Ok(()),
        }
    }
}

impl Common {
    /// Key/value heads of a layer, a divisor of the query heads.
    pub(super) fn kv_heads(&self, hyper: &Hyper<'_>, n: usize) -> Result<usize> {
        if n == 0 || n > self.n_heads || self.n_heads % n != 0 {
            let reason = format!("{n} key/value heads do not divide {} query heads", self.n_heads);
            return Err(hyper.bad("attention.head_count_kv", reason));
        }
        Ok(n)
    }
}
