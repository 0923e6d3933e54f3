//! How exactly a backend computes.

use crate::error::Error;
use serde::{Deserialize, Serialize};

/// How exactly a backend computes: a part of the exactness class by name, so that results of the two never mix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Logits within 1e-3 of float32 arithmetic on the same weights.
    #[default]
    Exact,
    /// Faster and less exact, by how much `lean verify --precision fast` measures: on the CPU activations of 8 bits and
    /// keys and values in half precision.
    Fast,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 2] = [Precision::Exact, Precision::Fast];

    /// `exact` or `fast`.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Exact => "exact",
            Precision::Fast => "fast",
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Precision {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self, Error> {
        let found = Precision::ALL.into_iter().find(|p| p.name() == s);
        found.ok_or_else(|| Error::invalid("precision", format!("{s:?} is not one of exact, fast")))
    }
}
