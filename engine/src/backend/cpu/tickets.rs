//! Results of passes until they are taken.

use crate::backend::{sample, Logits, Selection, SlotOutput, Ticket};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// What a slot left.
#[derive(Default)]
struct Slot {
    token: Option<u32>,
    selected: bool,
    /// `[vocab]` of the last token, until selected.
    last: Option<Vec<f32>>,
    /// What `poll` hands out.
    output: Option<Vec<f32>>,
}

#[derive(Default)]
pub(crate) struct Tickets {
    /// Slots are `None` once taken.
    map: HashMap<Ticket, Vec<Option<Slot>>>,
    next: u64,
}

impl Tickets {
    /// Files the logits of a pass, one entry a slot.
    pub(crate) fn file(&mut self, results: Vec<(Logits, Vec<f32>)>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let slots = results.into_iter().map(|(wanted, logits)| {
            Some(match wanted {
                Logits::None => Slot::default(),
                Logits::Last { read: false } => Slot { last: Some(logits), ..Slot::default() },
                Logits::Last { read: true } => {
                    Slot { last: Some(logits.clone()), output: Some(logits), ..Slot::default() }
                }
                Logits::All => Slot { output: Some(logits), ..Slot::default() },
            })
        });
        self.map.insert(ticket, slots.collect());
        ticket
    }

    fn slot(&mut self, ticket: Ticket, slot: usize) -> Result<&mut Slot> {
        let slots = self
            .map
            .get_mut(&ticket)
            .ok_or_else(|| Error::invalid("ticket", format!("there is no ticket {}", ticket.0)))?;
        slots.get_mut(slot).and_then(Option::as_mut).ok_or_else(|| {
            Error::invalid("slot", format!("ticket {} has no slot {slot}, or it was taken", ticket.0))
        })
    }

    /// The token chosen for a slot.
    pub(crate) fn token(&mut self, ticket: Ticket, slot: usize) -> Result<u32> {
        let found = self.slot(ticket, slot)?;
        found.token.ok_or_else(|| {
            Error::invalid("input", format!("slot {slot} of ticket {} has no token yet", ticket.0))
        })
    }

    pub(crate) fn select(&mut self, ticket: Ticket, slot: usize, selection: Selection<'_>) -> Result<()> {
        let found = self.slot(ticket, slot)?;
        if found.selected {
            return Err(Error::invalid(
                "select",
                format!("slot {slot} of ticket {} was selected before", ticket.0),
            ));
        }
        let Some(mut logits) = found.last.take() else {
            return Err(Error::invalid(
                "select",
                format!("slot {slot} of ticket {} kept no last logits", ticket.0),
            ));
        };
        found.selected = true;
        // The weights are bytes from outside: what is computed from damaged ones need not be a number.
        let damaged = !logits.iter().any(|x| x.is_finite());
        let token = sample(&mut logits, &selection).ok_or_else(|| match damaged {
            true => Error::bad_model("weights", "no logit is a finite number: the weights are damaged"),
            false => Error::Internal("the mask allows no token with a finite logit".into()),
        })?;
        found.token = Some(token);
        Ok(())
    }

    pub(crate) fn take(&mut self, ticket: Ticket, slot: usize) -> Result<SlotOutput> {
        let found = self.slot(ticket, slot)?;
        let output = SlotOutput { token: found.token, logits: found.output.take() };
        self.discard(ticket, slot);
        Ok(output)
    }

    pub(crate) fn discard(&mut self, ticket: Ticket, slot: usize) {
        if let Some(slots) = self.map.get_mut(&ticket) {
            if let Some(slot) = slots.get_mut(slot) {
                *slot = None;
            }
            if slots.iter().all(Option::is_none) {
                self.map.remove(&ticket);
            }
        }
    }
}
