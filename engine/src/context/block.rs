//! The blocks an ordered context is made of.

use crate::chat::{Chat, ChatTemplate};
use crate::error::{Error, Result};
use crate::tokenizer::{Specials, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of a context. Blocks are tokenised one after the other; each block's end is a natural point
/// for reuse and snapshots. The JSON form has one key that names the kind: `{"text": "..."}`,
/// `{"raw": "..."}`, `{"tokens": [1, 2]}`, `{"json": ...}`, or `{"chat": {"messages": [...]}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Plain text. Control tokens in it are never parsed: nobody injects a role through data.
    Text(String),
    /// Trusted text: control tokens in it are parsed, as transformers' tokenizers do by default.
    Raw(String),
    /// Token ids.
    Tokens(Vec<u32>),
    /// A whole conversation, rendered with the model's template. Only at the start of a context.
    Chat(Chat),
    /// A JSON value in compact form, as plain text.
    Json(Value),
}

impl Block {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text(text.into())
    }

    /// A conversation from `(role, content)` pairs that ends with the header of the assistant's turn.
    pub fn chat<R: AsRef<str>, C: AsRef<str>>(messages: &[(R, C)]) -> Self {
        Block::Chat(Chat {
            messages: messages
                .iter()
                .map(|(role, content)| serde_json::json!({ "role": role.as_ref(), "content": content.as_ref() }))
                .collect(),
            tools: None,
            add_generation_prompt: true,
            trusted: false,
            variables: Default::default(),
        })
    }
}

/// Turns blocks into ids with a model's tokenizer and template.
pub(crate) struct BlockEncoder<'a> {
    pub tokenizer: &'a Tokenizer,
    pub template: Option<&'a ChatTemplate>,
    pub vocab: usize,
}

impl BlockEncoder<'_> {
    /// Ids of blocks that start a context: BOS in front where the model asks for it and the text has none.
    /// An empty context is BOS.
    pub fn context(&self, blocks: &[Block]) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for (i, block) in blocks.iter().enumerate() {
            self.append(block, i == 0, &mut ids)?;
        }
        let bos = self.tokenizer.bos();
        if ids.is_empty() {
            return bos.map(|b| vec![b]).ok_or_else(|| {
                Error::invalid("blocks", "the context is empty and this model has no BOS token to start from")
            });
        }
        // Ids given by the caller are taken as they are.
        let exact = matches!(blocks.first(), Some(Block::Tokens(_)));
        match bos {
            Some(b) if self.tokenizer.add_bos() && !exact && ids[0] != b => ids.insert(0, b),
            _ => {}
        }
        Ok(ids)
    }

    /// Ids of blocks that continue a non-empty context.
    pub fn continuation(&self, blocks: &[Block]) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for block in blocks {
            self.append(block, false, &mut ids)?;
        }
        Ok(ids)
    }

    fn append(&self, block: &Block, first: bool, ids: &mut Vec<u32>) -> Result<()> {
        match block {
            Block::Text(text) => ids.extend(self.tokenizer.encode(text, Specials::Text)?),
            Block::Raw(text) => ids.extend(self.tokenizer.encode(text, Specials::Parse)?),
            Block::Json(value) => ids.extend(self.tokenizer.encode(&value.to_string(), Specials::Text)?),
            Block::Tokens(tokens) => {
                if let Some(id) = tokens.iter().find(|id| **id as usize >= self.vocab) {
                    return Err(Error::invalid(
                        "tokens",
                        format!("id {id} is not in the vocabulary of {} ids", self.vocab),
                    ));
                }
                ids.extend(tokens);
            }
            Block::Chat(chat) if first => ids.extend(self.chat(chat)?),
            Block::Chat(_) => return Err(Error::invalid(
                "chat",
                "a conversation is rendered as a whole, so it must be the first block of an empty context; \
                     use set_context with all messages (the common prefix is reused), or a raw block",
            )),
        }
        Ok(())
    }

    fn chat(&self, chat: &Chat) -> Result<Vec<u32>> {
        let rendered = self.render(chat)?;
        self.tokenizer.encode_marked(&rendered.text, rendered.marker)
    }

    /// The conversation as text.
    pub fn render(&self, chat: &Chat) -> Result<crate::chat::Rendered> {
        let template = self.template.ok_or_else(|| Error::Template {
            reason: "this model file has no chat template; use text or raw blocks".into(),
        })?;
        template.render(chat, &self.tokenizer.control_names())
    }
}
