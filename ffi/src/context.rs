//! Ordered contexts: a checkpoint, if any, then blocks.

use crate::checkpoint::lean_checkpoint;
use crate::error::lean_error;
use crate::handle::{self, opaque};
use crate::input::{self, Out};
use crate::status::lean_status;
use lean_engine::{Block, Chat, Checkpoint, Context, Error, Result};
use serde_json::{json, Value};
use std::ffi::c_char;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// A list of blocks to run. Blocks are tokenised one after the other; the end of each is a natural point to
/// reuse. Calls that use a context do not change or keep it, so that one serves many sessions.
pub struct lean_context {
    _opaque: [u8; 0],
}
opaque!(lean_context, Builder, b"ctxt");

#[derive(Default)]
pub(crate) struct Builder(RwLock<Content>);

#[derive(Default)]
pub(crate) struct Content {
    checkpoint: Option<Checkpoint>,
    blocks: Vec<Block>,
}

impl Builder {
    pub fn read(&self) -> Result<RwLockReadGuard<'_, Content>> {
        self.0.try_read().map_err(refused)
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, Content>> {
        self.0.try_write().map_err(refused)
    }

    fn push(&self, block: Block) -> Result<()> {
        self.write()?.blocks.push(block);
        Ok(())
    }
}

fn refused<T>(error: TryLockError<T>) -> Error {
    match error {
        TryLockError::WouldBlock => {
            Error::Busy { what: "the context is in use by a call on another thread".into() }
        }
        TryLockError::Poisoned(_) => {
            Error::Panic("the context was in use when an earlier call panicked; free it".into())
        }
    }
}

impl Content {
    pub fn context(&self) -> Context<'_> {
        Context { checkpoint: self.checkpoint.as_ref(), blocks: &self.blocks }
    }

    /// The blocks, where a checkpoint would have no meaning.
    pub fn blocks_only(&self) -> Result<&[Block]> {
        match self.checkpoint {
            None => Ok(&self.blocks),
            Some(_) => Err(Error::invalid(
                "context",
                "begins with a checkpoint; restore that with lean_session_restore",
            )),
        }
    }

    /// The conversation that messages are added to: the last block, if it is one.
    fn messages(&mut self) -> Option<&mut Vec<Value>> {
        match self.blocks.last_mut() {
            Some(Block::Chat(chat)) => Some(&mut chat.messages),
            _ => None,
        }
    }
}

/// A conversation from its JSON: the whole object, or just the array of messages.
pub(crate) fn chat(json: Value) -> Result<Chat> {
    let object = match json {
        Value::Array(messages) => json!({ "messages": messages }),
        other => other,
    };
    serde_json::from_value(object).map_err(|e| Error::invalid("chat", e))
}

/// An empty context. Free it with `lean_context_free`.
#[no_mangle]
pub unsafe extern "C" fn lean_context_new(
    context: *mut *mut lean_context,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [], {
        Out::new("context", context)?.set(handle::new(Builder::default()));
        Ok(())
    })
}

/// Adds plain text. Control tokens in it are never parsed: nobody injects a role through data. The text is
/// copied.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_text(
    context: *mut lean_context,
    text: *const c_char,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        builder.push(Block::Text(input::text("text", text, length)?.to_string()))
    })
}

/// Adds trusted text, in which control tokens are parsed. The text is copied.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_raw(
    context: *mut lean_context,
    text: *const c_char,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        builder.push(Block::Raw(input::text("text", text, length)?.to_string()))
    })
}

/// Adds token ids. They are copied, and checked against the model when they are used.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_tokens(
    context: *mut lean_context,
    ids: *const u32,
    count: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        builder.push(Block::Tokens(input::slice("ids", ids, count)?.to_vec()))
    })
}

/// Adds a JSON value, which the model sees in compact form.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_json(
    context: *mut lean_context,
    json: *const c_char,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        builder.push(Block::Json(input::json("json", json, length)?))
    })
}

/// Adds a whole conversation: a JSON array of messages (`[{"role": "user", "content": "..."}]`), or an object
/// with `messages` and optionally `tools`, `add_generation_prompt`, `trusted` and `variables`. It is rendered
/// with the model's chat template, and can only be the first block of a context.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_chat(
    context: *mut lean_context,
    json: *const c_char,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        builder.push(Block::Chat(chat(input::json("json", json, length)?)?))
    })
}

/// Adds one message to the conversation at the end of the context, or begins one. The strings are copied.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_message(
    context: *mut lean_context,
    role: *const c_char,
    role_length: usize,
    content: *const c_char,
    content_length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        let role = input::text("role", role, role_length)?;
        let text = input::text("content", content, content_length)?;
        let mut content = builder.write()?;
        match content.messages() {
            Some(messages) => messages.push(json!({ "role": role, "content": text })),
            None => content.blocks.push(Block::chat(&[(role, text)])),
        }
        Ok(())
    })
}

/// Adds blocks as they travel between programs: a JSON array of `{"text": "..."}`, `{"raw": "..."}`,
/// `{"tokens": [1, 2]}`, `{"json": ...}` and `{"chat": {"messages": [...]}}`. All of them or, after an error,
/// none.
#[no_mangle]
pub unsafe extern "C" fn lean_context_add_blocks(
    context: *mut lean_context,
    json: *const c_char,
    length: usize,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        let builder = handle::get(context)?;
        let blocks: Vec<Block> = input::json("json", json, length)?;
        builder.write()?.blocks.extend(blocks);
        Ok(())
    })
}

/// Makes the context begin at a checkpoint, for `lean_generate`. NULL removes it. The context keeps what it
/// needs, so the checkpoint may be freed.
#[no_mangle]
pub unsafe extern "C" fn lean_context_set_checkpoint(
    context: *mut lean_context,
    checkpoint: *const lean_checkpoint,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context, checkpoint], {
        let builder = handle::get(context)?;
        let checkpoint = handle::optional(checkpoint)?.cloned();
        builder.write()?.checkpoint = checkpoint;
        Ok(())
    })
}

/// Empties the context.
#[no_mangle]
pub unsafe extern "C" fn lean_context_clear(
    context: *mut lean_context,
    error: *mut *mut lean_error,
) -> lean_status {
    guarded!(error, [context], {
        *handle::get(context)?.write()? = Content::default();
        Ok(())
    })
}

/// Frees the context. NULL does nothing.
#[no_mangle]
pub unsafe extern "C" fn lean_context_free(context: *mut lean_context) {
    // SAFETY: the header's rules.
    unsafe { handle::free(context) }
}
