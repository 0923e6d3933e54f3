//! What a call is made of: context, type, options.

use crate::{CancelToken, Checkpoint, Error, Result, Type};
use serde::Serialize;
use serde_json::{json, Map, Value};
use std::time::Duration;

/// Blocks of context, in order.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    list: Vec<Value>,
    wrong: Option<Error>,
}

impl Blocks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, kind: &str, value: Value) -> Self {
        self.list.push(json!({kind: value}));
        self
    }

    /// Plain text: control tokens in it are never parsed, so nobody injects a role through data.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with("text", Value::String(text.into()))
    }

    /// Trusted text, in which control tokens are parsed.
    pub fn raw(self, text: impl Into<String>) -> Self {
        self.with("raw", Value::String(text.into()))
    }

    /// A value, which the model sees as compact JSON.
    pub fn json(mut self, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => self.with("json", value),
            Err(e) => {
                self.wrong.get_or_insert(Error::invalid(format!("a block is no JSON: {e}")));
                self
            }
        }
    }

    /// Token ids.
    pub fn tokens(self, ids: &[u32]) -> Self {
        self.with("tokens", json!(ids))
    }

    /// A conversation, rendered with the model's own template; it can only be the first block of a context.
    pub fn chat(self, chat: Chat) -> Self {
        self.with("chat", Value::Object(chat.0))
    }

    pub(crate) fn into_list(self) -> Result<Vec<Value>> {
        self.wrong.map_or(Ok(self.list), Err)
    }
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Chat(Map<String, Value>);

impl Chat {
    /// From pairs of a role and a text.
    pub fn new<R: Into<String>, C: Into<String>>(messages: impl IntoIterator<Item = (R, C)>) -> Self {
        Self::from_messages(
            messages.into_iter().map(|(r, c)| json!({"role": r.into(), "content": c.into()})).collect(),
        )
    }

    /// From whole messages, as chat templates know them.
    pub fn from_messages(messages: Vec<Value>) -> Self {
        let mut document = Map::new();
        document.insert("messages".into(), messages.into());
        Self(document)
    }

    /// Tools that are described to the model as its template does it.
    pub fn tools(mut self, tools: Vec<Value>) -> Self {
        self.0.insert("tools".into(), tools.into());
        self
    }

    /// Leaves out the beginning of the model's turn.
    pub fn without_generation_prompt(mut self) -> Self {
        self.0.insert("add_generation_prompt".into(), false.into());
        self
    }

    /// Parses control tokens inside messages; otherwise they stay text.
    pub fn trusted(mut self) -> Self {
        self.0.insert("trusted".into(), true.into());
        self
    }
}

/// One value to generate: its type, the context before it, options. Built by chaining.
#[derive(Debug, Clone, Default)]
pub struct Request {
    blocks: Blocks,
    of: Option<Type>,
    options: Map<String, Value>,
    pub(crate) after: Option<Checkpoint>,
    pub(crate) keep: bool,
    pub(crate) limits: Limits,
}

/// What may end a call early.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub cancel: Option<CancelToken>,
    pub timeout: Option<Duration>,
}

impl Request {
    /// A value of this type.
    pub fn new(of: Type) -> Self {
        Self { of: Some(of), ..Self::default() }
    }

    /// Unquoted text.
    pub fn text_of(prompt: impl Into<String>) -> Self {
        Self::new(Type::text()).text(prompt)
    }

    /// Goes on with the value that a checkpoint was taken in, whose type the checkpoint knows: that of
    /// [`Request::after`], or of a session that was opened from one.
    pub fn resume() -> Self {
        Self::default()
    }

    /// Appends blocks to the context.
    pub fn blocks(mut self, blocks: Blocks) -> Self {
        self.blocks.list.extend(blocks.list);
        self.blocks.wrong = self.blocks.wrong.or(blocks.wrong);
        self
    }

    /// Appends plain text: see [`Blocks::text`].
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks = self.blocks.text(text);
        self
    }

    /// Appends a value as JSON.
    pub fn json(mut self, value: impl Serialize) -> Self {
        self.blocks = self.blocks.json(value);
        self
    }

    /// A conversation; it can only come first.
    pub fn chat(mut self, chat: Chat) -> Self {
        self.blocks = self.blocks.chat(chat);
        self
    }

    /// A conversation of one message by the user.
    pub fn user(self, content: impl Into<String>) -> Self {
        self.chat(Chat::new([("user", content.into())]))
    }

    fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    fn number(mut self, name: &str, value: f64) -> Self {
        if !value.is_finite() {
            self.blocks.wrong.get_or_insert(Error::invalid(format!("{name}: {value} is no number")));
        }
        self.option(name, value)
    }

    /// The budget; a value of a type ends, whole, within it. By default what the context still holds.
    pub fn max_tokens(self, n: u32) -> Self {
        self.option("max_tokens", n)
    }

    /// 0, the default, takes the likeliest token.
    pub fn temperature(self, t: f64) -> Self {
        self.number("temperature", t)
    }

    /// Samples among so many of the likeliest.
    pub fn top_k(self, k: u32) -> Self {
        self.option("top_k", k)
    }

    /// Samples among the likeliest that together reach this probability.
    pub fn top_p(self, p: f64) -> Self {
        self.number("top_p", p)
    }

    /// Drops tokens below this share of the likeliest one's probability.
    pub fn min_p(self, p: f64) -> Self {
        self.number("min_p", p)
    }

    /// Makes recent tokens, so many of them, less likely; a penalty of 1 is off.
    pub fn repetition(self, penalty: f64, window: u32) -> Self {
        self.number("repetition_penalty", penalty).option("repetition_window", window)
    }

    /// The sampler's seed. The same context, type, options and class of machine give the same value.
    pub fn seed(self, seed: u64) -> Self {
        self.option("seed", seed)
    }

    /// Ends text before any of these strings (text types only).
    pub fn stop<S: Into<String>>(self, strings: impl IntoIterator<Item = S>) -> Self {
        let strings: Vec<String> = strings.into_iter().map(Into::into).collect();
        self.option("stop", strings)
    }

    /// Asks for [`crate::Event::Partial`] in streams, for JSON types.
    pub fn partials(self) -> Self {
        self.option("partials", true)
    }

    /// Asks how sure the model was: [`crate::Generated::confidence`].
    pub fn confidence(self) -> Self {
        self.option("confidence", true)
    }

    /// Asks for [`crate::Event::Candidates`] in streams: how many, at most 64.
    pub fn candidates(self, count: u32) -> Self {
        self.option("candidates", count)
    }

    /// Keeps the state after the value: [`crate::Generated::checkpoint`].
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Where a call on a model continues.
    pub fn after(mut self, checkpoint: &Checkpoint) -> Self {
        self.after = Some(checkpoint.clone());
        self
    }

    /// Ends when this is cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.limits.cancel = Some(token.clone());
        self
    }

    /// Ends with [`Error::TIMEOUT`] when it takes longer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// The tail of a GENERATE.
    pub(crate) fn document(&self) -> Result<Vec<u8>> {
        let mut document = Map::new();
        document.insert("blocks".into(), self.blocks.clone().into_list()?.into());
        match &self.of {
            Some(Type(Ok(source))) => {
                document.insert("type".into(), source.clone());
            }
            Some(Type(Err(wrong))) => {
                return Err(Error::new(Error::TYPE, "type", lean_protocol::Class::Input, wrong.clone()));
            }
            None => {}
        }
        document.insert("options".into(), self.options.clone().into());
        Ok(to_json(&document))
    }
}

/// A JSON tail. A [`Value`] always has one.
pub(crate) fn to_json(document: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}
