//! What to generate, and how.

use super::MAX_CANDIDATES;
use crate::backend::SamplerParams;
use crate::cancel::CancelToken;
use crate::constrain::{Type, TypeSource};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use web_time::{Duration, Instant};

/// A type, a budget and a sampler. Same context, request, seed and exactness class: same bytes out.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to generate.
    pub ty: Type,
    /// Budget, sampler, stop strings.
    pub options: RequestOptions,
    /// Cancels the generation from anywhere; looked at between layers.
    pub cancel: CancelToken,
    /// When to give up with [`Error::Timeout`].
    pub deadline: Option<Instant>,
}

/// The part of a request that a checkpoint keeps and that travels as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestOptions {
    /// Most tokens to generate; `None` is what the context still holds.
    pub max_tokens: Option<usize>,
    /// 0 (the default) is greedy.
    pub temperature: f32,
    /// Sample among the `top_k` likeliest; 0 is off.
    pub top_k: u32,
    /// Sample among the likeliest that together reach this probability; 1 is off.
    pub top_p: f32,
    /// Drop tokens below this share of the likeliest one's probability; 0 is off.
    pub min_p: f32,
    /// Makes tokens of the last [`RequestOptions::repetition_window`] less likely; 1 is off.
    pub repetition_penalty: f32,
    /// Tokens that the penalty looks at.
    pub repetition_window: u32,
    /// Seed of the sampler.
    pub seed: u64,
    /// Text ends before any of these (plain text only: any other value ends by itself).
    pub stop: Vec<String>,
    /// After a failure or a cancellation, keep what was generated instead of the session as it was before.
    pub keep_partial: bool,
    /// Report the value so far as [`super::Event::Partial`].
    pub partials: bool,
    /// Say how sure the model was of the value ([`super::Output::confidence`]). The logits of every step are then
    /// read back, and summed up over the tokens that the type allows.
    pub confidence: bool,
    /// Report at each choice this many of the likeliest tokens, whether the type allows them or not, as
    /// [`super::Event::Candidates`]; 0 is none, [`super::MAX_CANDIDATES`] the most. The logits of every step are then
    /// read back.
    #[serde(skip_serializing_if = "is_zero")]
    pub candidates: u32,
}

/// Checkpoints of requests without candidates are readable by engines that know none.
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for RequestOptions {
    fn default() -> Self {
        let greedy = SamplerParams::default();
        RequestOptions {
            max_tokens: None,
            temperature: greedy.temperature,
            top_k: greedy.top_k,
            top_p: greedy.top_p,
            min_p: greedy.min_p,
            repetition_penalty: greedy.repetition_penalty,
            repetition_window: greedy.repetition_window,
            seed: 0,
            stop: Vec::new(),
            keep_partial: false,
            partials: false,
            confidence: false,
            candidates: 0,
        }
    }
}

/// Stop strings are searched at every token, so their number and length are bounded.
const MAX_STOP_STRINGS: usize = 64;
const MAX_STOP_BYTES: usize = 4096;

impl RequestOptions {
    /// The sampler.
    pub fn sampler(&self) -> SamplerParams {
        SamplerParams {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            repetition_window: self.repetition_window,
        }
    }

    /// Whether the logits of every step are looked at here, beside choosing from them.
    pub(super) fn reads_logits(&self) -> bool {
        self.confidence || self.candidates > 0
    }

    /// Refuses numbers outside their range and stop strings on values.
    pub fn check(&self, ty: &Type) -> Result<()> {
        let within = |what: &str, x: f32, low: f32, high: f32| match x {
            x if x >= low && x <= high => Ok(()),
            x => Err(Error::invalid(what, format!("{x} is not between {low} and {high}"))),
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)?;
        if self.candidates > MAX_CANDIDATES {
            return Err(Error::invalid("candidates", format!("at most {MAX_CANDIDATES}")));
        }
        if self.max_tokens == Some(0) {
            return Err(Error::invalid("max_tokens", "must be at least 1"));
        }
        if !self.stop.is_empty() && !matches!(ty.source(), TypeSource::Text { .. }) {
            return Err(Error::invalid(
                "stop",
                "stop strings apply to plain text; a value of any other type ends by itself",
            ));
        }
        if self.stop.len() > MAX_STOP_STRINGS
            || self.stop.iter().any(|s| s.is_empty() || s.len() > MAX_STOP_BYTES)
        {
            return Err(Error::invalid(
                "stop",
                format!("at most {MAX_STOP_STRINGS} strings of 1 to {MAX_STOP_BYTES} bytes"),
            ));
        }
        Ok(())
    }
}

impl Request {
    /// A greedy request for a value of a type.
    pub fn new(ty: Type) -> Self {
        Request { ty, options: RequestOptions::default(), cancel: CancelToken::new(), deadline: None }
    }

    /// Sets the token budget.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.options.max_tokens = Some(tokens);
        self
    }

    /// Sets the seed and a temperature above 0.
    pub fn sample(mut self, temperature: f32, seed: u64) -> Self {
        self.options.temperature = temperature;
        self.options.seed = seed;
        self
    }

    /// Gives up after this long.
    pub fn timeout(mut self, after: Duration) -> Self {
        self.deadline = Instant::now().checked_add(after);
        self
    }

    /// Whether the options fit the type and their own bounds, as far as that shows without a model. Every generation
    /// asks this too; a host may ask it before it runs a context.
    pub fn check(&self) -> Result<()> {
        self.options.check(&self.ty)
    }

    /// From the parts that every host sends as JSON.
    pub fn from_parts(ty: TypeSource, options: RequestOptions) -> Result<Self> {
        Self::from_parts_within(ty, options, CancelToken::new())
    }

    /// The same with its cancellation, which ends the compilation of the type too.
    pub fn from_parts_within(ty: TypeSource, options: RequestOptions, cancel: CancelToken) -> Result<Self> {
        let ty = Type::from_source_within(ty, &cancel, None)?;
        Ok(Request { ty, options, cancel, deadline: None })
    }
}
