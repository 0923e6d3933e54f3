//! Submitted passes and what is wanted of them.

use super::device::Gpu;
use super::forward::Model;
use super::pass::Pass;
use super::readback::{Readback, Signal};
use super::scratch::Scratch;
use crate::backend::{sample, Mask, SamplerParams, Selection, SlotOutput};
use crate::error::{Error, Result};
use lean_shaders::ArgmaxParams;
use std::task::Poll;

/// A submitted pass.
pub struct Ticket {
    /// By slot; `None` once taken or discarded.
    pub slots: Vec<Option<TicketSlot>>,
    /// `[slots]` u32: tokens that were chosen on the device.
    pub chosen: wgpu::Buffer,
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
}

/// A slot's token.
pub enum Token {
    /// `select` was not called.
    Unselected,
    /// Chosen on the device.
    OnDevice(Readback),
    /// To be chosen on the host once the logits are there.
    OnHost(Readback, Box<HostSelection>),
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

fn nothing_allowed() -> Error {
    Error::invalid("mask", "allows no token of the vocabulary")
}

/// Exactly the vocabulary's words; those that a short mask lacks allow nothing. One word without a mask.
fn mask_words(mask: Option<&Mask>, vocab: usize) -> Vec<u32> {
    let mut words = mask.map_or_else(Vec::new, |m| m.words.clone());
    words.resize(if mask.is_some() { vocab.div_ceil(32) } else { 1 }, 0);
    words
}

/// Whether the device can choose: the largest logit, with or without a mask.
pub fn on_device(selection: &Selection<'_>) -> bool {
    let p = selection.params;
    p.temperature <= 0.0 && (p.repetition_penalty == 1.0 || selection.history.is_empty())
}

impl Ticket {
    /// A slot that was neither taken nor discarded.
    pub fn slot(&mut self, slot: usize) -> Result<&mut TicketSlot> {
        let gone = || Error::invalid("slot", format!("{slot} was taken, discarded or never submitted"));
        self.slots.get_mut(slot).and_then(Option::as_mut).ok_or_else(gone)
    }

    /// Queues the choice of a slot's token.
    pub fn select(
        &mut self,
        gpu: &Gpu,
        model: &Model,
        mask: &mut Scratch,
        slot: usize,
        selection: &Selection<'_>,
    ) -> Result<()> {
        let state = self.slot(slot)?;
        if !matches!(state.token, Token::Unselected) {
            return Err(Error::invalid("slot", format!("{slot} has a selection already")));
        }
        let row =
            state.last_row.ok_or_else(|| Error::invalid("slot", format!("{slot} asked for no logits")))?;
        let Some(logits) = &self.logits else {
            return Err(Error::Internal("a slot has a row of logits that were not computed".into()));
        };
        let vocab = model.plan.vocab;
        let mut pass = Pass::new();
        let token = if on_device(selection) {
            let read = Readback::new(gpu, "a token on its way to the host", 4)?;
            let masked = u32::from(selection.mask.is_some());
            let params = ArgmaxParams { vocab: vocab as u32, row: row as u32, slot: slot as u32, masked };
            let words = mask_words(selection.mask, vocab);
            let mask = mask.fill(gpu, "token mask", &words)?;
            pass.dispatch(&model.kernels.argmax, &params, &[logits, &mask, &self.chosen], [1, 1, 1]);
            read.copy(&mut pass, &self.chosen, (slot * 4) as u64, 0, 4);
            Token::OnDevice(read)
        } else {
            let bytes = (vocab * 4) as u64;
            let read = Readback::new(gpu, "logits on their way to the host", bytes)?;
            read.copy(&mut pass, logits, row as u64 * bytes, 0, bytes);
            Token::OnHost(read, Box::new(HostSelection::new(selection)))
        };
        pass.submit(gpu)?;
        if let Token::OnDevice(read) | Token::OnHost(read, _) = &token {
            read.request();
        }
        self.slot(slot)?.token = token;
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
    fn is_ready(&self) -> Result<bool> {
        match self {
            Token::OnDevice(read) | Token::OnHost(read, _) => read.is_ready(),
            Token::Unselected | Token::Known(_) => Ok(true),
        }
    }

    /// The token, once it is ready.
    fn take(&mut self) -> Result<Option<u32>> {
        match self {
            Token::Unselected => Ok(None),
            Token::Known(id) => Ok(Some(*id)),
            Token::OnDevice(read) => match read.poll::<u32>()? {
                Poll::Ready(ids) => match ids.first() {
                    Some(&id) if id != lean_shaders::twin::NONE => Ok(Some(id)),
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
