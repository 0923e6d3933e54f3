//! One value being generated: an explicit state machine, pulled step by step.

use super::prefill::{advance, Advance};
use super::random::Random;
use super::request::{Request, RequestOptions};
use super::text::TextStream;
use super::{Event, Finish, Output, Usage};
use crate::backend::{Logits, Mask, Selection};
use crate::constrain::{Matcher, TypeSource, Vocabulary};
use crate::context::Sequence;
use crate::error::{Error, Result};
use crate::schedule::{Done, Scheduler};
use crate::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use web_time::Instant;

/// What a run needs of its model.
pub(crate) struct RunDeps<'a> {
    pub scheduler: &'a Scheduler,
    pub tokenizer: &'a Tokenizer,
    pub vocabulary: &'a Vocabulary,
    /// Tokens that are text, and EOS: the mask of unbounded text.
    pub text_mask: &'a Mask,
}

/// A value in progress as a checkpoint keeps it: the type's source and the count of value tokens at the end
/// of the sequence, which are replayed, so that nothing of a matcher's inside is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub ty: TypeSource,
    pub options: RequestOptions,
    random: Random,
    /// Tokens of the sequence that precede the value.
    start: usize,
    /// Value tokens whose events were delivered before the cut.
    delivered: usize,
    /// Value tokens that were forced, by index.
    forced: Vec<usize>,
    /// The value had ended; only its last events were still to be delivered.
    finish: Option<Finish>,
    /// Text bytes left after a stop string was cut off.
    cut: Option<usize>,
}

/// A generation's owned state. The session is not touched until the run has finished.
pub(crate) struct Run {
    pub seq: Sequence,
    request: Request,
    matcher: Option<Matcher>,
    random: Random,
    start: usize,
    budget: usize,
    text: TextStream,
    forced: Vec<usize>,
    delivered: usize,
    events: VecDeque<Event>,
    finish: Option<Finish>,
    cut: Option<usize>,
    prefill: usize,
    usage: Usage,
    began: Instant,
}

impl Resume {
    /// As a checkpoint stores it.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::Internal(format!("value in progress: {e}")))
    }

    /// From a checkpoint's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| Error::bad_checkpoint("value in progress", e))
    }
}

impl Run {
    /// Starts a value after `seq`'s tokens, of which there must be at least one.
    pub fn new(deps: &RunDeps<'_>, mut seq: Sequence, request: Request) -> Result<Self> {
        request.options.check(&request.ty)?;
        request.cancel.check()?;
        let start = seq.tokens.len();
        let budget = budget(&seq, start, request.options.max_tokens)?;
        // At least one token has to run, for its logits.
        let mut filled = seq.filled()?;
        if filled == start {
            let tokens = seq.tokens.clone();
            seq.truncate(start - 1)?;
            seq.tokens = tokens;
            filled = seq.filled()?;
        }
        Ok(Run {
            matcher: new_matcher(deps, &request)?,
            random: Random::new(request.options.seed),
            start,
            budget,
            text: TextStream::new(request.options.stop.clone()),
            forced: Vec::new(),
            delivered: 0,
            events: VecDeque::new(),
            finish: None,
            cut: None,
            prefill: start - filled,
            usage: Usage { prompt_tokens: start, reused_tokens: filled, ..Usage::default() },
            began: Instant::now(),
            seq,
            request,
        })
    }

    /// Continues a value from a checkpoint: replays its tokens through a fresh matcher.
    pub fn resume(deps: &RunDeps<'_>, seq: Sequence, request: Request, resume: Resume) -> Result<Self> {
        if resume.start == 0 || resume.start > seq.tokens.len() || resume.delivered > seq.tokens.len() - resume.start {
            return Err(Error::bad_checkpoint("generation", "the value lies outside the sequence"));
        }
        let tokens = seq.tokens.clone();
        let filled = seq.filled()?;
        let budget = budget(&seq, resume.start, request.options.max_tokens)?;
        let mut run = Run {
            matcher: new_matcher(deps, &request)?,
            random: resume.random,
            start: resume.start,
            budget,
            text: TextStream::new(request.options.stop.clone()),
            forced: resume.forced,
            delivered: resume.delivered,
            events: VecDeque::new(),
            finish: resume.finish,
            cut: resume.cut,
            prefill: tokens.len() - filled,
            usage: Usage { prompt_tokens: resume.start, reused_tokens: filled.min(resume.start), ..Usage::default() },
            began: Instant::now(),
            seq,
            request,
        };
        for (i, id) in tokens[resume.start..].iter().enumerate() {
            if let Some(matcher) = &mut run.matcher {
                matcher.consume(*id)?;
            }
            run.text.push(deps.tokenizer.bytes(*id));
            let text = run.text.take_final();
            if i >= run.delivered {
                run.events.push_back(Event::Token { id: *id, text, forced: run.forced.contains(&i) });
            }
        }
        if let Some(at) = run.cut {
            run.text.cut(at);
        }
        Ok(run)
    }

    /// What a checkpoint needs to continue this value.
    pub fn suspend(&self) -> Resume {
        Resume {
            ty: self.request.ty.source().clone(),
            options: self.request.options.clone(),
            random: self.random,
            start: self.start,
            delivered: self.delivered,
            forced: self.forced.clone(),
            finish: self.finish,
            cut: self.cut,
        }
    }

    /// The next event; `None` once the value is finished and all events are delivered.
    pub fn next(&mut self, deps: &RunDeps<'_>) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.delivered += usize::from(matches!(event, Event::Token { .. }));
                return Ok(Some(event));
            }
            if self.finish.is_some() {
                return Ok(None);
            }
            self.step(deps)?;
        }
    }

    /// Whether a failure keeps what was generated.
    pub fn keeps_partial(&self) -> bool {
        self.request.options.keep_partial
    }

    /// The text so far.
    pub fn partial(&self) -> &str {
        &self.text.text
    }

    /// The finished value, checked once more independently of the matcher.
    pub fn output(&self) -> Result<Output> {
        let finish = self.finish.ok_or_else(|| Error::Internal("the generation has not finished".into()))?;
        let text = self.text.text.clone();
        let value = match (self.request.ty.is_text(), finish) {
            (true, Finish::Length | Finish::Stop) => serde_json::Value::String(text.clone()),
            _ => self.request.ty.check(&text)?,
        };
        Ok(Output { value, text, finish, tokens: self.seq.tokens[self.start..].to_vec(), usage: self.usage.clone() })
    }

    /// One pass, or the forced tokens before it.
    fn step(&mut self, deps: &RunDeps<'_>) -> Result<()> {
        self.take_forced(deps)?;
        if self.finish.is_some() || self.end_if_done()? || self.end_if_spent()? {
            return Ok(());
        }
        let end = self.seq.tokens.len();
        let (cancel, deadline) = (&self.request.cancel, self.request.deadline);
        let last = Logits::Last { read: false };
        let advanced = advance(&self.seq, end, last, deps.scheduler, cancel, deadline)?;
        self.usage.passes += 1;
        self.report_prefill()?;
        match advanced {
            Advance::Chunk => Ok(()),
            Advance::Last(done) => {
                let id = self.choose(deps, done)?;
                self.usage.sampled_tokens += 1;
                if self.usage.first_token_seconds == 0.0 {
                    self.usage.first_token_seconds = self.began.elapsed().as_secs_f64();
                }
                if deps.tokenizer.eos_ids().contains(&id) {
                    self.usage.sampled_tokens -= 1;
                    self.end(Finish::Complete);
                    return Ok(());
                }
                self.accept(deps, id, false)
            }
        }
    }

    fn choose(&mut self, deps: &RunDeps<'_>, done: Done) -> Result<u32> {
        let params = self.request.options.sampler();
        let history_from = self.seq.tokens.len().saturating_sub(params.repetition_window as usize);
        let mask = match &mut self.matcher {
            Some(matcher) => matcher.mask(),
            None => Ok(deps.text_mask.clone()),
        };
        let mask = match mask {
            Ok(mask) => mask,
            Err(error) => {
                deps.scheduler.discard(done);
                return Err(error);
            }
        };
        let selection = Selection {
            params: &params,
            history: &self.seq.tokens[history_from..],
            random: if params.temperature > 0.0 { self.random.next() } else { 0 },
            mask: Some(&mask),
        };
        deps.scheduler.select(done, selection)
    }

    /// Adds the tokens that the type leaves no choice about; they run together with the pending one.
    fn take_forced(&mut self, deps: &RunDeps<'_>) -> Result<()> {
        let Some(matcher) = &mut self.matcher else { return Ok(()) };
        for id in matcher.forced()? {
            if self.remaining() == 0 {
                return Ok(());
            }
            self.forced.push(self.seq.tokens.len() - self.start);
            self.usage.forced_tokens += 1;
            self.accept(deps, id, true)?;
        }
        Ok(())
    }

    fn accept(&mut self, deps: &RunDeps<'_>, id: u32, forced: bool) -> Result<()> {
        if let Some(matcher) = &mut self.matcher {
            matcher.consume(id)?;
        }
        self.seq.tokens.push(id);
        let stop = self.text.push(deps.tokenizer.bytes(id));
        if let Some(at) = stop {
            return self.stop_at(deps, id, at);
        }
        let text = self.text.take_final();
        self.events.push_back(Event::Token { id, text, forced });
        Ok(())
    }

    /// Ends the text before a stop string. Tokens that belong to it leave the sequence as well.
    fn stop_at(&mut self, deps: &RunDeps<'_>, id: u32, at: usize) -> Result<()> {
        self.text.cut(at);
        self.cut = Some(at);
        let text = self.text.take_rest();
        let (mut keep, mut bytes) = (self.start, 0);
        while keep < self.seq.tokens.len() {
            bytes += deps.tokenizer.bytes(self.seq.tokens[keep]).len();
            if bytes > at {
                break;
            }
            keep += 1;
        }
        self.seq.truncate(keep)?;
        if text.is_empty() || keep < self.seq.tokens.len() {
            self.events.push_back(Event::Text { text });
        } else {
            self.events.push_back(Event::Token { id, text, forced: false });
        }
        self.end(Finish::Stop);
        Ok(())
    }

    fn end_if_done(&mut self) -> Result<bool> {
        let done = match &mut self.matcher {
            Some(matcher) => matcher.is_done()?,
            None => false,
        };
        if done {
            self.end(Finish::Complete);
        }
        Ok(done)
    }

    /// At the end of the budget text is finished; a value is complete or cut off.
    fn end_if_spent(&mut self) -> Result<bool> {
        if self.remaining() > 0 {
            return Ok(false);
        }
        let complete = match &mut self.matcher {
            Some(matcher) => matcher.is_accepting()?,
            None => false,
        };
        match (complete, self.request.ty.is_text()) {
            (true, false) => self.end(Finish::Complete),
            (_, true) => self.end(Finish::Length),
            (false, false) => {
                let tokens = self.seq.tokens.len() - self.start;
                return Err(Error::Truncated { partial: self.text.text.clone(), tokens });
            }
        }
        Ok(true)
    }

    fn end(&mut self, finish: Finish) {
        let rest = self.text.take_rest();
        if !rest.is_empty() {
            self.events.push_back(Event::Text { text: rest });
        }
        self.usage.total_seconds = self.began.elapsed().as_secs_f64();
        self.finish = Some(finish);
    }

    fn remaining(&self) -> usize {
        (self.start + self.budget).saturating_sub(self.seq.tokens.len())
    }

    /// Progress is worth an event only where there was more to run than one pass's worth of pending tokens.
    fn report_prefill(&mut self) -> Result<()> {
        if self.prefill > 1 && self.usage.sampled_tokens == 0 {
            let done = self.seq.filled()?.saturating_sub(self.usage.reused_tokens).min(self.prefill);
            self.events.push_back(Event::Prefill { done, total: self.prefill });
        }
        Ok(())
    }
}

/// Tokens that a request may add: its own budget, which must fit, or what the context still holds.
fn budget(seq: &Sequence, start: usize, max_tokens: Option<usize>) -> Result<usize> {
    let needed = start.saturating_add(max_tokens.unwrap_or(1));
    if needed > seq.capacity {
        return Err(Error::ContextOverflow { needed, available: seq.capacity });
    }
    Ok(max_tokens.unwrap_or(seq.capacity - start))
}

/// Unbounded text needs no grammar; the static mask keeps control tokens out.
fn new_matcher(deps: &RunDeps<'_>, request: &Request) -> Result<Option<Matcher>> {
    match request.ty.source() {
        TypeSource::Text { max_chars: None } => Ok(None),
        _ => Matcher::new(&request.ty, deps.vocabulary).map(Some),
    }
}
