//! One value being generated: an explicit state machine, pulled step by step.

use super::candidates;
use super::confidence::{self, Step};
use super::partial::Partial;
use super::prefill::next_job;
use super::random::Random;
use super::request::{Request, RequestOptions};
use super::text::TextStream;
use super::{Ahead, Event, Finish, Output, Usage};
use crate::backend::{Logits, Mask, Selection};
use crate::constrain::{Matcher, Steer, Type, TypeSource};
use crate::context::{PrefixCache, Sequence};
use crate::error::{Error, Result};
use crate::schedule::{Done, Job, Patience, Scheduler};
use crate::tokenizer::{Tokenizer, Utf8Stream};
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};
use web_time::Instant;

/// What a run needs of its model.
pub(crate) struct RunDeps<'a> {
    pub scheduler: &'a Scheduler,
    pub tokenizer: &'a Tokenizer,
    /// Tokens that are text, and EOS: the mask of unbounded text.
    pub text_mask: &'a Mask,
    pub prefixes: &'a PrefixCache,
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
    /// The completion that the budget had begun to require.
    #[serde(default)]
    plan: Vec<u32>,
    /// What was seen of the tokens so far, if it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
    /// The value had ended; only its last events were still to be delivered.
    ended: Option<Ended>,
}

/// A value that has ended. Its text is kept, since a stop string may cut it inside a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ended {
    finish: Finish,
    text: String,
    undelivered: Vec<Undelivered>,
}

/// An [`Event::Token`], or without an id an [`Event::Text`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Undelivered {
    id: Option<u32>,
    text: String,
    forced: bool,
}

impl Undelivered {
    fn of(event: &Event) -> Option<Self> {
        match event.clone() {
            Event::Token { id, text, forced } => Some(Undelivered { id: Some(id), text, forced }),
            Event::Text { text } => Some(Undelivered { id: None, text, forced: false }),
            // Progress is of no use afterwards.
            Event::Prefill { .. } | Event::Candidates { .. } => None,
            // Made anew from the text.
            Event::Partial { .. } => None,
        }
    }

    fn into_event(self) -> Event {
        let Undelivered { id, text, forced } = self;
        match id {
            Some(id) => Event::Token { id, text, forced },
            None => Event::Text { text },
        }
    }
}

/// A generation's owned state. The session is not touched until the run has finished.
pub(crate) struct Run {
    pub seq: Sequence,
    pub(super) request: Request,
    pub(super) matcher: Option<Matcher>,
    pub(super) steer: Option<Steer>,
    random: Random,
    pub(super) start: usize,
    budget: usize,
    text: TextStream,
    forced: Vec<usize>,
    delivered: usize,
    events: VecDeque<Event>,
    finish: Option<Finish>,
    prefill: usize,
    /// Length of the text at the last partial value, and that value.
    pub(super) shown: (usize, Option<Partial>),
    /// The matcher, while another thread computes its mask.
    pub(super) ahead: Option<Ahead>,
    /// Seconds that the last mask took.
    pub(super) mask_seconds: Option<f64>,
    /// What is known of tokens chosen from logits, if it was asked for.
    pub(super) steps: Vec<Step>,
    /// Bytes of the value's tokens.
    written: usize,
    usage: Usage,
    began: Instant,
    /// The pass that runs the last token, queued before the token was known.
    under_way: Option<Done>,
}

/// What a run needs next.
pub(crate) enum Next {
    /// A job to run, and whether its logits are those of the last pending token.
    Run(Job, bool),
    /// The last pending token's pass is under way already.
    UnderWay(Done),
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
    /// What can be refused about a request before anything runs: after a context of `start` tokens, in a session
    /// of `capacity`.
    pub fn check(request: &Request, start: usize, capacity: usize) -> Result<()> {
        request.options.check(&request.ty)?;
        request.cancel.check()?;
        budget(start, request.options.max_tokens, capacity).map(drop)
    }

    /// Starts a value after `seq`'s tokens, of which there must be at least one.
    pub fn new(
        mut seq: Sequence,
        request: Request,
        matcher: impl FnOnce(&Type) -> Result<Option<Matcher>>,
    ) -> Result<Self> {
        let start = seq.tokens.len();
        // A request that was cancelled meanwhile ends at its first step: it may be one of several that start together.
        request.options.check(&request.ty)?;
        let budget = budget(start, request.options.max_tokens, seq.capacity)?;
        let filled = leave_one_pending(&mut seq)?;
        let mut run = Run {
            matcher: matcher(&request.ty)?,
            steer: None,
            random: Random::new(request.options.seed),
            start,
            budget,
            text: TextStream::new(request.options.stop.clone()),
            forced: Vec::new(),
            delivered: 0,
            events: VecDeque::new(),
            finish: None,
            prefill: start - filled,
            usage: Usage { prompt_tokens: start, reused_tokens: filled, ..Usage::default() },
            shown: (0, None),
            ahead: None,
            under_way: None,
            mask_seconds: None,
            steps: Vec::new(),
            written: 0,
            began: Instant::now(),
            seq,
            request,
        };
        run.start_steering()?;
        run.check_budget()?;
        Ok(run)
    }

    /// Continues a value from a checkpoint: replays its tokens through a fresh matcher.
    pub fn resume(
        deps: &RunDeps<'_>,
        mut seq: Sequence,
        request: Request,
        resume: Resume,
        matcher: impl FnOnce(&Type) -> Result<Option<Matcher>>,
    ) -> Result<Self> {
        request.options.check(&request.ty)?;
        if resume.start == 0
            || resume.start > seq.tokens.len()
            || resume.delivered > seq.tokens.len() - resume.start
        {
            return Err(Error::bad_checkpoint("generation", "the value lies outside the sequence"));
        }
        let filled = match resume.ended {
            Some(_) => seq.filled()?,
            None => leave_one_pending(&mut seq)?,
        };
        let budget = budget(resume.start, request.options.max_tokens, seq.capacity)?;
        let mut run = Run {
            matcher: matcher(&request.ty)?,
            steer: None,
            random: resume.random,
            start: resume.start,
            budget,
            text: TextStream::new(request.options.stop.clone()),
            forced: resume.forced,
            delivered: resume.delivered,
            events: VecDeque::new(),
            finish: None,
            prefill: seq.tokens.len() - filled,
            usage: Usage {
                prompt_tokens: resume.start,
                reused_tokens: filled.min(resume.start),
                ..Usage::default()
            },
            shown: (0, None),
            ahead: None,
            under_way: None,
            mask_seconds: None,
            steps: resume.steps,
            written: 0,
            began: Instant::now(),
            seq,
            request,
        };
        match resume.ended {
            None => run.replay(deps, resume.plan)?,
            Some(Ended { finish, text, undelivered }) => {
                run.text.text = text;
                run.events.extend(undelivered.into_iter().map(Undelivered::into_event));
                run.finish = Some(finish);
            }
        }
        Ok(run)
    }

    /// Takes matcher and text to the end of the sequence; events that were not delivered are queued again.
    fn replay(&mut self, deps: &RunDeps<'_>, plan: Vec<u32>) -> Result<()> {
        let forced: HashSet<usize> = self.forced.iter().copied().collect();
        self.start_steering()?;
        for (i, &id) in self.seq.tokens[self.start..].iter().enumerate() {
            if let Some(matcher) = &mut self.matcher {
                matcher.consume(id)?;
            }
            if let Some(steer) = &mut self.steer {
                steer.follow(id, deps.tokenizer.bytes(id))?;
            }
            self.text.push(deps.tokenizer.bytes(id));
            self.written += deps.tokenizer.bytes(id).len();
            let text = self.text.take_final();
            if i >= self.delivered {
                self.events.push_back(Event::Token { id, text, forced: forced.contains(&i) });
            }
        }
        if let Some(steer) = &mut self.steer {
            steer.resume_plan(plan);
        }
        self.check_budget()
    }

    /// What a checkpoint needs to continue this value.
    pub fn suspend(&self) -> Resume {
        Resume {
            ty: self.request.ty.source().clone(),
            options: self.request.options.clone(),
            random: self.random,
            start: self.start,
            // A stop string takes tokens back whose events were delivered.
            delivered: self.delivered.min(self.seq.tokens.len() - self.start),
            forced: self.forced.clone(),
            plan: self.steer.as_ref().map(|s| s.plan().to_vec()).unwrap_or_default(),
            steps: self.steps.clone(),
            ended: self.finish.map(|finish| Ended {
                finish,
                text: self.text.text.clone(),
                undelivered: self.events.iter().filter_map(Undelivered::of).collect(),
            }),
        }
    }

    /// An event that was not delivered yet.
    pub fn pop_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front().or_else(|| self.partial_event())?;
        self.delivered += usize::from(matches!(event, Event::Token { .. }));
        Some(event)
    }

    /// Whether the value has ended; events may remain.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// How long the request is willing to wait.
    pub fn patience(&self) -> Patience<'_> {
        Patience { cancel: &self.request.cancel, deadline: self.request.deadline }
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
        let plain = matches!(self.request.ty.source(), TypeSource::Text { .. });
        let value = match (plain, finish) {
            (true, Finish::Length | Finish::Stop) => serde_json::Value::String(text.clone()),
            // The mask let nothing else arise: a value that is refused now is no fault of the caller's.
            _ => self.request.ty.check(&text).map_err(|e| {
                Error::Internal(format!("the mask and the final validation disagree on {text:?}: {e}"))
            })?,
        };
        Ok(Output {
            value,
            text,
            finish,
            tokens: self.seq.tokens[self.start..].to_vec(),
            usage: self.usage.clone(),
            confidence: self.confidence()?,
            warnings: self.request.ty.warnings().to_vec(),
        })
    }

    /// Takes forced tokens and says what has to run next; `None` if the value ended.
    pub fn prepare(&mut self, deps: &RunDeps<'_>) -> Result<Option<Next>> {
        self.settle_mask()?;
        self.take_forced(deps)?;
        if self.finish.is_some() || self.end_if_done()? || self.end_if_spent()? {
            self.drop_ahead(deps)?;
            return Ok(None);
        }
        self.patience().check().inspect_err(|_| drop(self.drop_ahead(deps)))?;
        if let Some(done) = self.under_way.take() {
            return Ok(Some(Next::UnderWay(done)));
        }
        let last = Logits::Last { read: self.request.options.reads_logits() };
        let most = deps.scheduler.pass_tokens();
        let (job, last) = next_job(&self.seq, self.seq.tokens.len(), last, most, &self.request.cancel)?;
        if let (true, Some(steer), Some(matcher)) = (last, &self.steer, &mut self.matcher) {
            if !matcher.has_mask() {
                matcher.name_place(steer.place()?);
            }
            self.begin_mask();
        }
        Ok(Some(Next::Run(job, last)))
    }

    /// Makes a last token pending whose pass ran ahead, as it is between the steps of a backend that does not.
    pub fn pull_back(&mut self, scheduler: &Scheduler) -> Result<()> {
        if let Some(done) = self.under_way.take() {
            scheduler.discard(done);
            let tokens = self.seq.tokens.clone();
            self.seq.truncate(tokens.len().saturating_sub(1))?;
            self.seq.tokens = tokens;
        }
        Ok(())
    }

    /// Gives a pass up that ran ahead, and takes back a token that the state has and the sequence does not.
    fn drop_ahead(&mut self, deps: &RunDeps<'_>) -> Result<()> {
        if let Some(done) = self.under_way.take() {
            deps.scheduler.discard(done);
        }
        let len = self.seq.tokens.len();
        if self.seq.filled()? > len {
            self.seq.truncate(len)?;
        }
        Ok(())
    }

    /// Takes what [`Run::prepare`] asked for.
    pub fn complete(&mut self, deps: &RunDeps<'_>, done: Done, last: bool) -> Result<()> {
        if let Err(error) = self.settle_mask() {
            deps.scheduler.discard(done);
            return Err(error);
        }
        self.usage.passes += 1;
        if let Err(error) = self.report_prefill() {
            deps.scheduler.discard(done);
            return Err(error);
        }
        if !last {
            deps.scheduler.discard(done);
            return Ok(());
        }
        if self.usage.sampled_tokens == 0 {
            // The context is complete: another request may begin with it, whatever becomes of this value.
            deps.prefixes.insert(&self.seq);
        }
        let (id, logits) = self.choose(deps, done)?;
        if self.usage.first_token_seconds == 0.0 {
            self.usage.first_token_seconds = self.began.elapsed().as_secs_f64();
        }
        if deps.tokenizer.eos_ids().contains(&id) {
            self.observe(deps, logits, id)?;
            self.end(Finish::Complete);
            return self.drop_ahead(deps);
        }
        match self.steered(id, deps.tokenizer.bytes(id))? {
            Some((id, forced)) => {
                self.observe(deps, logits, id)?;
                self.take(deps, id, forced)
            }
            None => {
                let cut = self.request.ty.may_be_cut(self.partial());
                self.end(if cut { Finish::Length } else { Finish::Complete });
                Ok(())
            }
        }
    }

    /// Keeps and reports what the logits say of the token that is taken, as far as it was asked for.
    fn observe(&mut self, deps: &RunDeps<'_>, logits: Option<Vec<f32>>, id: u32) -> Result<()> {
        let Some(logits) = logits.filter(|_| self.request.options.reads_logits()) else { return Ok(()) };
        let exact;
        let mask = match &mut self.matcher {
            Some(matcher) => {
                exact = matcher.mask()?;
                &exact
            }
            None => deps.text_mask,
        };
        let tokenizer = deps.tokenizer;
        let bytes = |id: u32| tokenizer.bytes(id);
        if self.request.options.confidence {
            self.steps.push(confidence::step(&logits, mask, id, tokenizer.eos_ids(), &bytes, self.written));
        }
        let count = self.request.options.candidates;
        if count > 0 {
            self.events.push_back(candidates::event(&logits, mask, id, count, tokenizer));
        }
        Ok(())
    }

    /// The token, and the logits if they were asked for.
    fn choose(&mut self, deps: &RunDeps<'_>, done: Done) -> Result<(u32, Option<Vec<f32>>)> {
        let params = self.request.options.sampler();
        let history_from = self.seq.tokens.len().saturating_sub(params.repetition_window as usize);
        let exact;
        let mask = match &mut self.matcher {
            Some(matcher) => {
                let began = (!matcher.has_mask()).then(Instant::now);
                exact = matcher.mask().inspect_err(|_| deps.scheduler.discard(done))?;
                self.mask_seconds = began.map(|b| b.elapsed().as_secs_f64()).or(self.mask_seconds);
                &exact
            }
            None => deps.text_mask,
        };
        let selection = Selection {
            params: &params,
            history: &self.seq.tokens[history_from..],
            random: if params.temperature > 0.0 { self.random.next() } else { 0 },
            mask: Some(mask),
        };
        let patience = Patience { cancel: &self.request.cancel, deadline: self.request.deadline };
        // Text goes on whatever the token is, unless it ends.
        let plain = self.matcher.is_none() && !self.request.options.reads_logits();
        if !plain || params.temperature > 0.0 || self.remaining() < 2 {
            return deps.scheduler.select(done, selection, patience);
        }
        match deps.scheduler.select_ahead(done, selection, self.seq.state(), patience) {
            Ok((id, ahead)) => {
                self.under_way = ahead;
                Ok((id, None))
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.drop_ahead(deps);
                Err(error)
            }
        }
    }

    /// Adds the tokens that the type leaves no choice about; they run together with the pending one.
    fn take_forced(&mut self, deps: &RunDeps<'_>) -> Result<()> {
        let Some(matcher) = &mut self.matcher else { return Ok(()) };
        for id in matcher.forced()? {
            // A stop string may lie inside the run.
            if self.finish.is_some() || self.remaining() == 0 {
                return Ok(());
            }
            // Each of these runs together with another token.
            self.usage.saved_passes += 1;
            self.take(deps, id, true)?;
        }
        Ok(())
    }

    fn take(&mut self, deps: &RunDeps<'_>, id: u32, forced: bool) -> Result<()> {
        if forced {
            self.forced.push(self.seq.tokens.len() - self.start);
            self.usage.forced_tokens += 1;
        } else {
            self.usage.sampled_tokens += 1;
        }
        self.accept(deps, id, forced)
    }

    fn accept(&mut self, deps: &RunDeps<'_>, id: u32, forced: bool) -> Result<()> {
        if let Some(matcher) = &mut self.matcher {
            matcher.consume(id)?;
        }
        if let Some(steer) = &mut self.steer {
            steer.follow(id, deps.tokenizer.bytes(id))?;
        }
        self.seq.tokens.push(id);
        self.written += deps.tokenizer.bytes(id).len();
        let stop = self.text.push(deps.tokenizer.bytes(id));
        if let Some(at) = stop {
            self.stop_at(deps, at)?;
            return self.drop_ahead(deps);
        }
        let text = self.text.take_final();
        self.events.push_back(Event::Token { id, text, forced });
        Ok(())
    }

    /// Ends the text before a stop string. Tokens that belong to it leave the sequence as well.
    fn stop_at(&mut self, deps: &RunDeps<'_>, at: usize) -> Result<()> {
        self.text.cut(at);
        // Decoded again, since bytes that are no UTF-8 are longer as text than as tokens.
        let (mut utf8, mut end) = (Utf8Stream::default(), 0);
        let whole = self.seq.tokens[self.start..].iter().take_while(|id| {
            end += utf8.push(deps.tokenizer.bytes(**id)).len();
            end + utf8.pending.len() <= at
        });
        let keep = self.start + whole.count();
        self.seq.truncate(keep)?;
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

    /// At the end of the budget plain text is finished; any other value was steered to its end.
    fn end_if_spent(&mut self) -> Result<bool> {
        if self.remaining() > 0 {
            return Ok(false);
        }
        let complete = match &mut self.matcher {
            Some(matcher) => matcher.is_accepting()?,
            None => false,
        };
        let plain = self.request.ty.may_be_cut(self.partial());
        match (plain, complete) {
            (true, _) => self.end(Finish::Length),
            (false, true) => self.end(Finish::Complete),
            (false, false) => return Err(Error::Internal("the budget ran out inside a value".into())),
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

    pub(super) fn remaining(&self) -> usize {
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
fn budget(start: usize, max_tokens: Option<usize>, capacity: usize) -> Result<usize> {
    let needed = start.saturating_add(max_tokens.unwrap_or(1));
    if needed > capacity {
        return Err(Error::ContextOverflow { needed, available: capacity });
    }
    Ok(max_tokens.unwrap_or(capacity - start))
}

/// At least one token has to run, for its logits. Returns how many need not.
fn leave_one_pending(seq: &mut Sequence) -> Result<usize> {
    if seq.filled()? == seq.tokens.len() {
        let tokens = seq.tokens.clone();
        seq.truncate(tokens.len().saturating_sub(1))?;
        seq.tokens = tokens;
    }
    seq.filled()
}
