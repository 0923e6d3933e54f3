//! An echo sequence: what it was told, and since when it has not answered.

use super::behaviour::Behaviour;
use super::checkpoint::EchoCheckpoint;
use super::generation::{EchoGeneration, Value as InProgress};
use crate::port::{Branch, Checkpoint, Generation, OnPrefill, Session};
use lean_engine::{Block, CancelToken, Error, RequestOptions, Result, TypeSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// Tokens of one prefill chunk.
const PREFILL_CHUNK: usize = 8;
/// Longest piece that counts as one token, in characters.
const PIECE_CHARS: usize = 32;

/// All that an echo remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// Tokens of the context, values included.
    pub tokens: usize,
    /// The context's texts, so that a common prefix can be found.
    pub told: Vec<String>,
    /// How many of them earlier values have answered.
    pub answered: usize,
    /// A value in progress.
    pub value: Option<InProgress>,
}

pub(super) struct EchoSession {
    behaviour: Behaviour,
    context: usize,
    state: State,
}

/// The echo's tokenizer: words with the blanks before them, long ones cut.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let (mut chars, mut in_word) = (0, false);
    for c in text.chars() {
        let starts = c.is_whitespace() && in_word;
        if all.is_empty() || starts || chars == PIECE_CHARS {
            all.push(String::new());
            chars = 0;
        }
        in_word = !c.is_whitespace();
        chars += 1;
        if let Some(last) = all.last_mut() {
            last.push(c);
        }
    }
    all
}

/// The text that a block tells.
fn text_of(block: &Block, first: bool) -> Result<String> {
    Ok(match block {
        Block::Text(t) | Block::Raw(t) => t.clone(),
        Block::Json(v) => v.to_string(),
        Block::Tokens(ids) => ids.iter().map(|id| format!(" {id}")).collect(),
        Block::Chat(chat) if first => {
            let last = chat.messages.last().and_then(|m| m.get("content")).and_then(Value::as_str);
            last.unwrap_or_default().to_owned()
        }
        _ => {
            return Err(Error::invalid("chat", "a conversation must be the first block of an empty context"))
        }
    })
}

impl EchoSession {
    pub fn new(behaviour: Behaviour, context: usize, state: State) -> Result<Self> {
        if state.tokens > context {
            return Err(Error::ContextOverflow { needed: state.tokens, available: context });
        }
        Ok(Self { behaviour, context, state })
    }

    pub fn with_state(&self, state: State) -> Self {
        Self { behaviour: self.behaviour.clone(), context: self.context, state }
    }

    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }
    pub fn state(&self) -> &State {
        &self.state
    }
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }
    pub fn context(&self) -> usize {
        self.context
    }

    /// What has not been answered yet, in one piece.
    pub fn unanswered(&self) -> &[String] {
        self.state.told.get(self.state.answered..).unwrap_or_default()
    }
}

impl Session for EchoSession {
    fn tokens(&self) -> usize {
        self.state.tokens
    }

    fn append(
        &mut self,
        blocks: &Value,
        replace: bool,
        cancel: &CancelToken,
        on_prefill: OnPrefill<'_>,
    ) -> Result<()> {
        let blocks: Vec<Block> =
            Deserialize::deserialize(blocks).map_err(|e: serde_json::Error| Error::invalid("blocks", e))?;
        let mut told = if replace { Vec::new() } else { self.state.told.clone() };
        for block in &blocks {
            told.push(text_of(block, told.is_empty())?);
        }
        let common = if replace {
            self.state.told.iter().zip(&told).take_while(|(a, b)| a == b).count()
        } else {
            self.state.told.len()
        };
        let new: usize = told.iter().skip(common).map(|t| pieces(t).len()).sum();
        let kept =
            if replace { told.iter().take(common).map(|t| pieces(t).len()).sum() } else { self.state.tokens };
        let needed = kept + new;
        if needed > self.context {
            return Err(Error::ContextOverflow { needed, available: self.context });
        }
        for done in (0..new).step_by(PREFILL_CHUNK) {
            self.behaviour.pause(self.behaviour.step_ms, cancel)?;
            on_prefill((done + PREFILL_CHUNK).min(new), new)?;
        }
        let answered = if replace { 0 } else { self.state.answered };
        self.state = State { tokens: needed, told, answered, value: None };
        Ok(())
    }

    fn cut(&mut self, range: Range<usize>, _: &CancelToken, _: OnPrefill<'_>) -> Result<()> {
        if range.start > range.end || range.end > self.state.tokens {
            let reason = format!("{range:?}, but the session has {} tokens", self.state.tokens);
            return Err(Error::invalid("range", reason));
        }
        let mut all: Vec<String> = self.state.told.iter().flat_map(|text| pieces(text)).collect();
        // Values are not among what was told, so a cut behind it takes from their tokens alone.
        let told = range.start.min(all.len())..range.end.min(all.len());
        all.drain(told);
        self.state.told = vec![all.concat()];
        self.state.answered = 0;
        self.state.tokens -= range.len();
        self.state.value = None;
        Ok(())
    }

    fn generate_many(&self, branches: &[Branch<'_>]) -> Result<Vec<Box<dyn Generation>>> {
        let start = |branch: &Branch<'_>| {
            let mut session = self.fork()?;
            match session.append(branch.blocks, false, branch.cancel, &mut |_, _| Ok(())) {
                // It ends by itself, at its first step.
                Err(Error::Cancelled) => {}
                appended => appended?,
            }
            session.generate(Some(branch.ty), branch.options, branch.cancel)
        };
        branches.iter().map(start).collect()
    }

    fn fork(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(self.with_state(self.state.clone())))
    }

    fn checkpoint(&self) -> Result<Arc<dyn Checkpoint>> {
        Ok(Arc::new(EchoCheckpoint { state: self.state.clone() }))
    }

    fn check(&self, ty: &Value, options: &Value, _cancel: &CancelToken) -> Result<()> {
        TypeSource::deserialize(ty).map_err(|e| Error::invalid("type", e))?;
        RequestOptions::deserialize(options).map_err(|e| Error::invalid("options", e))?;
        Ok(())
    }

    fn generate(
        mut self: Box<Self>,
        ty: Option<&Value>,
        options: &Value,
        cancel: &CancelToken,
    ) -> Result<Box<dyn Generation>> {
        let value = match (ty, self.state.value.take()) {
            (None, Some(value)) => value,
            (None, None) => return Err(Error::invalid("type", "a type is needed: no value is in progress")),
            (Some(ty), _) => {
                let ty = TypeSource::deserialize(ty).map_err(|e| Error::invalid("type", e))?;
                let options =
                    RequestOptions::deserialize(options).map_err(|e| Error::invalid("options", e))?;
                InProgress::start(ty, options, &self)?
            }
        };
        Ok(Box::new(EchoGeneration::new(*self, value, cancel.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text() {
        for text in ["", " ", "one two", "  a\n b ", "naïve 日本", &"x".repeat(100)] {
            let p = pieces(text);
            assert_eq!(p.concat(), text);
            assert!(p.iter().all(|s| !s.is_empty() && s.chars().count() <= PIECE_CHARS));
        }
        assert_eq!(pieces("one two  three"), ["one", " two", "  three"]);
    }
}
