//! What all sessions of a model share.

use super::model::ModelInfo;
use crate::adapter::Loaded;
use crate::backend::{Backend, Mask};
use crate::chat::ChatTemplate;
use crate::constrain::{Matcher, Type, TypeSource, Vocabulary};
use crate::context::{Block, BlockEncoder, Identity, PrefixCache, Sequence};
use crate::error::{Error, Result};
use crate::generate::RunDeps;
use crate::model::Targets;
use crate::schedule::Scheduler;
use crate::tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An immutable loaded model.
pub(super) struct Core {
    pub info: ModelInfo,
    pub identity: Identity,
    pub tokenizer: Arc<Tokenizer>,
    /// Absent where the file has none; a template that does not compile says so when it is used.
    pub template: Option<Result<ChatTemplate>>,
    pub backend: Arc<dyn Backend>,
    pub scheduler: Arc<Scheduler>,
    pub text_mask: Mask,
    pub prefixes: PrefixCache,
    /// The matrices that adapters may update.
    pub targets: Targets,
    /// Adapters in use.
    pub adapters: Loaded,
    /// Built with the first constrained type: loading a model for plain text should not wait for it.
    vocabulary: OnceLock<Result<Vocabulary>>,
    /// Of the types generated last, at the start of a value; latest first.
    matchers: Mutex<VecDeque<(Type, Matcher)>>,
}

/// Matchers kept; each may take some megabytes.
const MAX_MATCHERS: usize = 16;

impl Core {
    pub fn new(
        info: ModelInfo,
        identity: Identity,
        tokenizer: Arc<Tokenizer>,
        template: Option<Result<ChatTemplate>>,
        backend: Arc<dyn Backend>,
        targets: Targets,
        prefix_cache: u64,
    ) -> Self {
        Core {
            text_mask: text_mask(&tokenizer, info.vocab_size),
            scheduler: Arc::new(Scheduler::new(backend.clone())),
            prefixes: PrefixCache::new(backend.clone(), prefix_cache),
            info,
            identity,
            tokenizer,
            template,
            backend,
            targets,
            adapters: Loaded::default(),
            vocabulary: OnceLock::new(),
            matchers: Mutex::default(),
        }
    }

    pub fn run_deps(&self) -> RunDeps<'_> {
        RunDeps {
            scheduler: &self.scheduler,
            tokenizer: &self.tokenizer,
            text_mask: &self.text_mask,
            prefixes: &self.prefixes,
        }
    }

    /// What follows a value of the type. Unbounded text needs no grammar; the text mask keeps control tokens out.
    pub fn matcher(&self, ty: &Type) -> Result<Option<Matcher>> {
        if let TypeSource::Text { max_chars: None } = ty.source() {
            return Ok(None);
        }
        let vocabulary =
            self.vocabulary.get_or_init(|| Vocabulary::new(self.tokenizer.clone(), self.info.vocab_size));
        let vocabulary = vocabulary.as_ref().map_err(Error::clone)?;
        let mut kept = self.matchers.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match kept.iter().position(|(t, _)| t.is(ty)).and_then(|at| kept.remove(at)) {
            Some(entry) => entry,
            None => (ty.clone(), Matcher::new(ty, vocabulary)?),
        };
        let matcher = entry.1.apart();
        kept.push_front(entry);
        kept.truncate(MAX_MATCHERS);
        Ok(Some(matcher))
    }

    pub fn encoder(&self, blocks: &[Block]) -> Result<BlockEncoder<'_>> {
        let template = match &self.template {
            Some(Ok(template)) => Some(template),
            Some(Err(e)) if blocks.iter().any(|b| matches!(b, Block::Chat(_))) => return Err(e.clone()),
            _ => None,
        };
        Ok(BlockEncoder { tokenizer: &self.tokenizer, template, vocab: self.info.vocab_size })
    }

    pub fn sequence(&self, capacity: usize) -> Result<Sequence> {
        Sequence::new(&self.backend, capacity)
    }

    /// The context that a session gets: what was asked for, within what the model was made for.
    pub fn capacity(&self, asked: Option<usize>) -> Result<usize> {
        match asked {
            None => Ok(self.info.context_length),
            Some(0) => Err(Error::invalid("context", "must be at least 1 token")),
            Some(n) if n > self.info.context_length => Err(Error::invalid(
                "context",
                format!("{n} tokens; this model was made for at most {}", self.info.context_length),
            )),
            Some(n) => Ok(n),
        }
    }
}

/// Everything that is text, and what ends it. Other control tokens are never part of a value.
fn text_mask(tokenizer: &Tokenizer, vocab: usize) -> Mask {
    let mut words = vec![0u32; vocab.div_ceil(32)];
    for id in 0..vocab as u32 {
        let text = !tokenizer.is_control(id) && !tokenizer.bytes(id).is_empty();
        if text || tokenizer.eos_ids().contains(&id) {
            words[id as usize / 32] |= 1 << (id % 32);
        }
    }
    Mask { words }
}
