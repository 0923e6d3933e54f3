//! An echo value in the making.

use super::checkpoint::EchoCheckpoint;
use super::session::{pieces, EchoSession, State};
use crate::port::{Checkpoint, Event, Generation, Output, Session};
use lean_engine::{CancelToken, Error, RequestOptions, Result, Type, TypeSource};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// The whole value is known from the start; `made` of its pieces have been said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Value {
    ty: TypeSource,
    /// Of the type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    budget: usize,
    /// `complete` or `stop`: how it ends if the budget lasts.
    finish: String,
    pieces: Vec<String>,
    made: usize,
}

impl Value {
    /// Decides on the value. Types and options that the engine would refuse are refused here.
    pub fn start(ty: TypeSource, options: RequestOptions, session: &EchoSession) -> Result<Self> {
        let checked = Type::from_source(ty.clone())?;
        options.check(&checked)?;
        let needed = session.state().tokens.saturating_add(options.max_tokens.unwrap_or(1));
        if needed > session.context() {
            return Err(Error::ContextOverflow { needed, available: session.context() });
        }
        let budget = options.max_tokens.unwrap_or(session.context() - session.state().tokens);
        let text = answer(&ty, session.unanswered())?;
        let stop = options.stop.iter().filter_map(|s| text.find(s.as_str())).min();
        let (text, finish) = stop.map_or((text.as_str(), "complete"), |at| (&text[..at], "stop"));
        if stop.is_none() {
            checked.check(text)?;
        }
        let warnings = checked.warnings().to_vec();
        let value = Self { ty, warnings, budget, finish: finish.into(), pieces: pieces(text), made: 0 };
        if !value.is_text() && value.pieces.len() > budget {
            return Err(Error::BudgetTooSmall { needed: value.pieces.len() });
        }
        Ok(value)
    }

    pub fn is_sound(&self) -> bool {
        self.made <= self.pieces.len()
    }

    fn is_text(&self) -> bool {
        !matches!(self.ty, TypeSource::Expr(_) | TypeSource::Schema(_))
    }

    fn text(&self) -> String {
        self.pieces.iter().take(self.made).map(String::as_str).collect()
    }
}

/// What an echo says to this type.
fn answer(ty: &TypeSource, told: &[String]) -> Result<String> {
    let all = told.concat();
    match ty {
        TypeSource::Expr(_) | TypeSource::Schema(_) => {
            let parsed = told.iter().rev().find_map(|t| lean_protocol::json::parse(t.as_bytes()).ok());
            let value = parsed.ok_or_else(|| {
                Error::invalid(
                    "blocks",
                    "an echo answers a JSON type with the JSON it was told, and was told none",
                )
            })?;
            Ok(value.to_string())
        }
        TypeSource::Text { max_chars: Some(n) } => Ok(all.chars().take(*n).collect()),
        TypeSource::Text { max_chars: None } | TypeSource::Regex(_) => Ok(all),
        TypeSource::Tools(_) => {
            Err(Error::invalid("type", "an echo has no tools; a model is needed to call them"))
        }
        TypeSource::Choice(choices) => {
            let said = choices.iter().find(|c| all.contains(c.as_str())).or(choices.first());
            said.cloned().ok_or_else(|| Error::ty("", "choice", "there is nothing to choose from"))
        }
    }
}

pub(super) struct EchoGeneration {
    session: EchoSession,
    value: Value,
    cancel: CancelToken,
    prompt_tokens: usize,
    finish: Option<String>,
}

impl EchoGeneration {
    pub fn new(session: EchoSession, value: Value, cancel: CancelToken) -> Self {
        let prompt_tokens = session.state().tokens - value.made.min(session.state().tokens);
        Self { session, value, cancel, prompt_tokens, finish: None }
    }

    fn misbehave(&self) -> Result<()> {
        let at = Some(self.value.made as u32);
        if self.session.behaviour().panic_at == at {
            panic!("echo was asked to panic at token {}", self.value.made);
        }
        if self.session.behaviour().fail_at == at {
            return Err(Error::DeviceLost {
                reason: format!("echo was asked to fail at token {}", self.value.made),
            });
        }
        Ok(())
    }
}

impl Generation for EchoGeneration {
    fn next(&mut self) -> Result<Option<Event>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        let Some(piece) = self.value.pieces.get(self.value.made).cloned() else {
            self.finish = Some(self.value.finish.clone());
            return Ok(None);
        };
        if self.value.made >= self.value.budget {
            self.finish = Some("length".into());
            return Ok(None);
        }
        self.misbehave()?;
        self.session.behaviour().pause(self.session.behaviour().step_ms, &self.cancel)?;
        self.value.made += 1;
        self.session.state_mut().tokens += 1;
        // An id that a host can check: the length of the token in bytes.
        Ok(Some(Event::Token { id: piece.len() as u32, text: piece, forced: false }))
    }

    fn checkpoint(&mut self) -> Result<Arc<dyn Checkpoint>> {
        let state = State { value: Some(self.value.clone()), ..self.session.state().clone() };
        Ok(Arc::new(EchoCheckpoint { state }))
    }

    fn finish(mut self: Box<Self>) -> Result<(Output, Box<dyn Session>)> {
        while self.next()?.is_some() {}
        let text = self.value.text();
        let value = if self.value.is_text() {
            json!(text)
        } else {
            lean_protocol::json::parse(text.as_bytes()).map_err(|e| Error::Internal(e.to_string()))?
        };
        let usage = json!({
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": 0,
            "sampled_tokens": self.value.made,
            "forced_tokens": 0,
        });
        let state = self.session.state_mut();
        state.answered = state.told.len();
        state.value = None;
        let finish = self.finish.take().unwrap_or_default();
        let warnings = self.value.warnings;
        Ok((Output { value, text, finish, usage, confidence: None, warnings }, Box::new(self.session)))
    }
}
