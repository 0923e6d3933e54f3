//! Submitted passes and what is wanted of them.

use super::device::Gpu;
use super::model::Model;
use super::pass::{Pass, Recorder};
use super::readback::{Readback, Signal};
use super::submit::Shared;
use crate::backend::{sample, Mask, SamplerParams, Selection, SlotOutput};
use crate::error::{Error, Result};
use lean_shaders::{self as shaders, ChoiceParams};
use std::task::Poll;

/// A submitted pass.
pub struct Ticket {
    /// By slot; `None` once taken or discarded.
    pub slots: Vec<Option<TicketSlot>>,
    /// By slot: where a token that the device chooses is put.
    pub places: Vec<u32>,
    /// `[rows][vocab]` of all slots that want logits.
    pub logits: Option<wgpu::Buffer>,
    /// Set when the pass has run.
    pub done: Signal,
}

/// A slot's share of a ticket.
pub struct TicketSlot {
    /// Its last row of `logits`.
    pub last_row: Option<usize>,
    /// Logits on their way to the host.
    pub read: Option<Readback>,
    /// Its token.
    pub token: Token,
    /// The token was chosen without a penalty, and with the mask that the device had already (`true`) or with none: who
    /// chose so will choose so again.
    pub repeats: Option<bool>,
    /// The same choice from these logits, made with their pass.
    pub early: Option<Early>,
}

/// A choice that nobody has asked for yet.
pub struct Early {
    /// The token on its way to the host.
    pub read: Readback,
    masked: bool,
    /// Of [`Shared::mask_words`].
    version: u64,
}

/// A slot's token.
pub enum Token {
    /// `select` was not called.
    Unselected,
    /// Chosen on the device.
    OnDevice(Readback),
    /// To be chosen on the host once the logits are there.
    OnHost(Readback, Box<HostSelection>),
    /// Chosen on the device and read.
    Read(Readback, u32),
    /// Chosen on the host.
    Known(u32),
}

/// A copy of a [`Selection`], for later.
pub struct HostSelection {
    params: SamplerParams,
    history: Vec<u32>,
    random: u32,
    mask: Option<Mask>,
}

impl HostSelection {
    /// Copies everything.
    pub fn new(selection: &Selection<'_>) -> Self {
        HostSelection {
            params: selection.params.clone(),
            history: selection.history.to_vec(),
            random: selection.random,
            mask: selection.mask.cloned(),
        }
    }

    fn choose(&self, logits: &mut [f32]) -> Result<u32> {
        let selection = Selection {
            params: &self.params,
            history: &self.history,
            random: self.random,
            mask: self.mask.as_ref(),
        };
        sample(logits, &selection).ok_or_else(nothing_allowed)
    }
}

/// Ids of a part of `argmax_parts`.
const PART: usize = 1024;

fn nothing_allowed() -> Error {
    Error::invalid("mask", "allows no token of the vocabulary")
}

/// Exactly the vocabulary's words; those that a short mask lacks allow nothing. One word without a mask.
fn mask_words(mask: Option<&Mask>, vocab: usize) -> Vec<u32> {
    let mut words = mask.map_or_else(Vec::new, |m| m.words.clone());
    words.resize(if mask.is_some() { vocab.div_ceil(32) } else { 1 }, 0);
    words
}

/// Whether the device can choose: the largest logit, with or without a mask and a penalty.
pub fn on_device(selection: &Selection<'_>) -> bool {
    selection.params.temperature <= 0.0
}

/// The ids that a penalty changes, each once.
fn penalized(selection: &Selection<'_>) -> Vec<u32> {
    if selection.params.repetition_penalty == 1.0 {
        return Vec::new();
    }
    let mut ids = selection.history.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Early {
    /// Whether that is what a selection asks for.
    fn is(&self, selection: &Selection<'_>, shared: &Shared, vocab: usize) -> bool {
        let same_mask =
            || self.version == shared.mask_version && mask_words(selection.mask, vocab) == shared.mask_words;
        on_device(selection)
            && penalized(selection).is_empty()
            && self.masked == selection.mask.is_some()
            && (!self.masked || same_mask())
    }
}

fn token_read(gpu: &Gpu, shared: &mut Shared) -> Result<Readback> {
    match shared.token_reads.pop() {
        Some(buffer) => Ok(Readback::again(buffer)),
        None => Readback::new(gpu, "a token on its way to the host", 4),
    }
}

/// Records the kernels that put the best of `row` into place `place`; what [`TicketSlot::repeats`] says of it.
fn choose(
    gpu: &Gpu,
    model: &Model,
    shared: &mut Shared,
    logits: &wgpu::Buffer,
    (row, place): (usize, u32),
    selection: &Selection<'_>,
) -> Result<Option<bool>> {
    let words = mask_words(selection.mask, model.vocab);
    let history = penalized(selection);
    let new_mask = selection.mask.is_some() && words != shared.mask_words;
    if new_mask || !history.is_empty() {
        // What waits reads the old content.
        shared.flush(gpu)?;
    }
    let mask = match new_mask {
        true => shared.mask.fill(gpu, "token mask", &words)?,
        false => shared.mask.fit(gpu, "token mask", words.len())?,
    };
    if new_mask {
        shared.mask_words = words;
        shared.mask_version += 1;
    }
    let params = ChoiceParams {
        vocab: model.vocab as u32,
        row: row as u32,
        slot: place,
        masked: u32::from(selection.mask.is_some()),
        history: history.len() as u32,
        penalty: selection.params.repetition_penalty,
    };
    let best = shared.argmax.fit(gpu, "parts of a selection", 2 * model.vocab.div_ceil(PART))?;
    let ids = match history.is_empty() {
        true => None,
        false => Some(shared.history.fill(gpu, "ids under a penalty", &history)?),
    };
    let mut r = Recorder { gpu, prepared: &mut shared.prepared, pass: &mut shared.pending };
    if let Some(ids) = ids {
        let grid = [history.len().div_ceil(64) as u32, 1, 1];
        r.dispatch(model.kernels.plain(&shaders::PENALIZE)?, &params, &[&ids, logits], grid)?;
    }
    largest(&mut r, model, &params, [logits, &mask, &best, &shared.chosen])?;
    Ok((!new_mask && history.is_empty()).then_some(selection.mask.is_some()))
}

/// The kernels of the largest logit.
fn largest(
    r: &mut Recorder<'_>,
    model: &Model,
    params: &ChoiceParams,
    [logits, mask, best, chosen]: [&wgpu::Buffer; 4],
) -> Result<()> {
    let parts = model.vocab.div_ceil(PART) as u32;
    let kernel = model.kernels.plain(&shaders::ARGMAX_PARTS)?;
    r.dispatch(kernel, params, &[logits, mask, best], [parts, 1, 1])?;
    r.dispatch(model.kernels.plain(&shaders::ARGMAX)?, params, &[best, chosen], [1, 1, 1])
}

/// Records into a pass of logits the choice of their largest, `masked` as the last one, and its way to the host.
pub fn choose_early(
    gpu: &Gpu,
    model: &Model,
    shared: &mut Shared,
    pass: &mut Pass,
    logits: &wgpu::Buffer,
    (row, place, masked): (usize, u32, bool),
) -> Result<Early> {
    let read = token_read(gpu, shared)?;
    let mask = shared.mask.fit(gpu, "token mask", if masked { shared.mask_words.len() } else { 1 })?;
    let best = shared.argmax.fit(gpu, "parts of a selection", 2 * model.vocab.div_ceil(PART))?;
    let params = ChoiceParams {
        vocab: model.vocab as u32,
        row: row as u32,
        slot: place,
        masked: masked.into(),
        history: 0,
        penalty: 1.0,
    };
    let mut r = Recorder { gpu, prepared: &mut shared.prepared, pass };
    largest(&mut r, model, &params, [logits, &mask, &best, &shared.chosen])?;
    read.copy(pass, &shared.chosen, u64::from(place) * 4, 0, 4);
    Ok(Early { read, masked, version: shared.mask_version })
}

impl Ticket {
    /// A slot that was neither taken nor discarded.
    pub fn slot(&mut self, slot: usize) -> Result<&mut TicketSlot> {
        let gone = || Error::invalid("slot", format!("{slot} was taken, discarded or never submitted"));
        self.slots.get_mut(slot).and_then(Option::as_mut).ok_or_else(gone)
    }

    /// Records the choice of a slot's token; it goes with the next submission.
    pub fn select(
        &mut self,
        gpu: &Gpu,
        model: &Model,
        shared: &mut Shared,
        slot: usize,
        selection: &Selection<'_>,
    ) -> Result<()> {
        let state = self.slot(slot)?;
        if !matches!(state.token, Token::Unselected) {
            return Err(Error::invalid("slot", format!("{slot} has a selection already")));
        }
        let row =
            state.last_row.ok_or_else(|| Error::invalid("slot", format!("{slot} asked for no logits")))?;
        if let Some(early) = state.early.take().filter(|e| e.is(selection, shared, model.vocab)) {
            (state.token, state.repeats) = (Token::OnDevice(early.read), Some(early.masked));
            return Ok(());
        }
        let (Some(logits), Some(&place)) = (&self.logits, self.places.get(slot)) else {
            return Err(Error::Internal("a slot has a row of logits that were not computed".into()));
        };
        let mut repeats = None;
        let token = if on_device(selection) {
            let read = token_read(gpu, shared)?;
            repeats = choose(gpu, model, shared, logits, (row, place), selection)?;
            read.copy(&mut shared.pending, &shared.chosen, u64::from(place) * 4, 0, 4);
            shared.pending_reads.push(read.clone());
            Token::OnDevice(read)
        } else {
            let bytes = (model.vocab * 4) as u64;
            let read = Readback::new(gpu, "logits on their way to the host", bytes)?;
            read.copy(&mut shared.pending, logits, row as u64 * bytes, 0, bytes);
            shared.pending_reads.push(read.clone());
            Token::OnHost(read, Box::new(HostSelection::new(selection)))
        };
        let state = self.slot(slot)?;
        (state.token, state.repeats) = (token, repeats);
        Ok(())
    }

    /// Whether every slot was taken or discarded.
    pub fn is_over(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// A slot's result, if all of it is there.
    pub fn poll(&mut self, slot: usize) -> Result<Poll<SlotOutput>> {
        let ran = self.done.is_set()?;
        let state = self.slot(slot)?;
        if !ran {
            return Ok(Poll::Pending);
        }
        if state.read.as_ref().map_or(Ok(true), Readback::is_ready)? && state.token.is_ready()? {
            let token = state.token.take()?;
            let logits = match &state.read {
                Some(read) => match read.poll()? {
                    Poll::Ready(logits) => Some(logits),
                    Poll::Pending => return Ok(Poll::Pending),
                },
                None => None,
            };
            return Ok(Poll::Ready(SlotOutput { token, logits }));
        }
        Ok(Poll::Pending)
    }
}

impl Token {
    /// The host-visible buffer of a token that was read, for another use.
    pub fn spare(self) -> Option<wgpu::Buffer> {
        match self {
            Token::Read(read, _) => Some(read.end()),
            _ => None,
        }
    }

    fn is_ready(&self) -> Result<bool> {
        match self {
            Token::OnDevice(read) | Token::OnHost(read, _) => read.is_ready(),
            Token::Unselected | Token::Known(_) | Token::Read(..) => Ok(true),
        }
    }

    /// The token, once it is ready.
    fn take(&mut self) -> Result<Option<u32>> {
        match self {
            Token::Unselected => Ok(None),
            Token::Known(id) | Token::Read(_, id) => Ok(Some(*id)),
            Token::OnDevice(read) => match read.poll::<u32>()? {
                Poll::Ready(ids) => match ids.first() {
                    Some(&id) if id != lean_shaders::twin::NONE => {
                        *self = Token::Read(read.clone(), id);
                        Ok(Some(id))
                    }
                    _ => Err(nothing_allowed()),
                },
                Poll::Pending => Ok(None),
            },
            Token::OnHost(read, selection) => match read.poll()? {
                Poll::Ready(mut logits) => selection.choose(&mut logits).map(Some),
                Poll::Pending => Ok(None),
            },
        }
    }

    /// Turns a choice that is up to the host into a known token, waiting for its logits.
    pub fn settle(&mut self, gpu: &Gpu) -> Result<()> {
        if let Token::OnHost(read, selection) = self {
            let mut logits: Vec<f32> = read.wait(gpu)?;
            *self = Token::Known(selection.choose(&mut logits)?);
        }
        Ok(())
    }
}
