//! What all sessions of a model share.

use super::model::ModelInfo;
use crate::adapter::Loaded;
use crate::backend::{Backend, Mask};
use crate::chat::ChatTemplate;
use crate::constrain::{Matcher, ToolSyntax, Tools, Type, TypeSource, Vocabulary};
use crate::context::{Block, BlockEncoder, Identity, PrefixCache, Sequence};
use crate::error::{Error, Result};
use crate::generate::{Request, RunDeps};
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
    /// The same with the control tokens that calls of tools are written with, if there are any.
    tool_vocabulary: OnceLock<Result<Option<Vocabulary>>>,
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
            tool_vocabulary: OnceLock::new(),
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
        let vocabulary = self.vocabulary(ty)?;
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

    fn vocabulary(&self, ty: &Type) -> Result<&Vocabulary> {
        let (tokenizer, vocab) = (&self.tokenizer, self.info.vocab_size);
        if ty.is_reply() {
            let marked = self
                .tool_vocabulary
                .get_or_init(|| Vocabulary::with_markers(tokenizer.clone(), vocab, &ToolSyntax::MARKERS));
            if let Some(marked) = marked.as_ref().map_err(Error::clone)? {
                return Ok(marked);
            }
        }
        let plain = self.vocabulary.get_or_init(|| Vocabulary::new(tokenizer.clone(), vocab));
        plain.as_ref().map_err(Error::clone)
    }

    /// How this model writes calls of tools: by its own control tokens, its architecture and its template.
    pub fn tool_syntax(&self) -> ToolSyntax {
        let names = self.tokenizer.control_names();
        let template = self.template.as_ref().and_then(|t| t.as_ref().ok()).map_or("", ChatTemplate::source);
        match () {
            _ if names.contains(&"<|tool_call_start|>") => ToolSyntax::Pythonic,
            _ if self.info.architecture.starts_with("gemma") => ToolSyntax::Gemma,
            _ if template.contains("<tool_call>") => ToolSyntax::Hermes,
            _ if names.contains(&"<|eot_id|>") => ToolSyntax::Llama,
            _ => ToolSyntax::Hermes,
        }
    }

    /// A request as this model takes it: tools are called in its own syntax unless the request names one.
    pub fn resolved(&self, request: &Request) -> Result<Request> {
        let mut request = request.clone();
        if let TypeSource::Tools(tools @ Tools { syntax: None, .. }) = request.ty.source() {
            let syntax = Some(self.tool_syntax());
            request.ty = Type::tools(Tools { syntax, ..tools.clone() })?;
        }
        Ok(request)
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
