//! What `--precision fast` costs: logits beside those of the same file, loaded exactly.

use super::bench::argmax;
use crate::args::DeviceArgs;
use crate::loading;
use lean_engine::tokenizer::Specials;
use lean_engine::{Model, Precision, Result, SessionOptions};
use serde::Serialize;
use std::path::Path;

/// Some English, so that logits are those of text.
const TEXT: &str = "A river carries more than water. In spring it brings silt from the mountains, and the fields on both \
    sides are dark and soft for weeks. The people who live there have names for every bend, and they tell the year by how \
    high the stones stand. When the bridge was built, the oldest of them said that it would not last ten winters.";

/// Differences of the logits after every token of a text.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Divergence {
    /// Tokens of the text.
    tokens: usize,
    /// The largest difference of any logit.
    largest: f32,
    /// The mean of the differences of all logits.
    mean: f64,
    /// Tokens after which the likeliest token is another one.
    other_top: usize,
}

impl Divergence {
    /// Loads the file once more, exactly.
    pub fn measure(model: &Model, path: &Path, device: &DeviceArgs) -> Result<Self> {
        let exact = loading::load(path, &DeviceArgs { precision: Precision::Exact, ..device.clone() })?;
        let ids = model.encode(TEXT, Specials::Text)?;
        let logits = |model: &Model| model.session(SessionOptions::default())?.forward_all(&ids);
        let (got, want) = (logits(model)?, logits(&exact)?);
        let (mut largest, mut sum, mut count, mut other_top) = (0f32, 0f64, 0usize, 0);
        for (got, want) in got.iter().zip(&want) {
            other_top += usize::from(argmax(got) != argmax(want));
            for (got, want) in got.iter().zip(want) {
                let difference = (got - want).abs();
                largest = if difference > largest { difference } else { largest };
                sum += f64::from(difference);
                count += 1;
            }
        }
        Ok(Divergence { tokens: ids.len(), largest, mean: sum / count.max(1) as f64, other_top })
    }

    /// For people.
    pub fn text(&self) -> String {
        let Divergence { tokens, largest, mean, other_top } = self;
        format!("logits differ by {largest:.2} at most, {mean:.3} in the mean; another top token after {other_top} of {tokens}")
    }
}
