//! From a batch to a queued pass.

use super::device::Gpu;
use super::forward::{part_elems, Inputs};
use super::lowrank::{self, Applied};
use super::model::{Mixer, Model};
use super::pass::{Pass, Prepared, Recorder};
use super::readback::{Readback, Signal};
use super::scratch::{ActivationScratch, Activations, Scratch, Widths};
use super::states::{Grown, States};
use super::tickets::{choose_early, Ticket, TicketSlot, Token as Choice};
use super::Inner;
use crate::backend::{Batch, Counters, Input, Logits, Slot, Ticket as TicketId};
use crate::error::{Error, Result};
use lean_shaders::{ConvSlot, Facts, Tile, Token, CHOSEN};
use std::collections::HashMap;

/// Tokens of one pass at most, whatever the device holds: more gain nothing and only delay a cancellation.
pub const MAX_TOKENS: usize = 2048;

/// Tokens that may wait on the device to be read by a pass or by the host.
const CHOSEN_PLACES: u32 = 4096;

/// Tokens of a tile of attention: what its kernel takes, and less where heads are long.
fn tile_tokens(model: &Model) -> usize {
    let long = |layer: &super::model::Layer| matches!(&layer.mixer, Mixer::Attention(a) if a.head_dim > 128);
    if model.layers.iter().any(long) {
        4
    } else {
        8
    }
}

/// What all passes share.
pub struct Shared {
    facts: Scratch,
    activations: ActivationScratch,
    /// Rows of the residual stream that get logits.
    rows: Scratch,
    /// Masks, ids under a penalty and parts of selections.
    pub mask: Scratch,
    pub history: Scratch,
    pub argmax: Scratch,
    /// What `mask` holds.
    pub mask_words: Vec<u32>,
    /// Counts the masks that were sent.
    pub mask_version: u64,
    /// Tokens that were chosen on the device.
    pub chosen: wgpu::Buffer,
    /// Its free places.
    places: Vec<u32>,
    /// Buffers of logits that no ticket holds.
    logits: Vec<wgpu::Buffer>,
    /// Host-visible buffers of a token that nothing is on its way in.
    pub token_reads: Vec<wgpu::Buffer>,
    /// Selections that go with the next submission, and what they are read back with.
    pub pending: Pass,
    pub pending_reads: Vec<Readback>,
    /// Updates of the weights.
    sets: lowrank::Sets,
    /// Bind groups and parameters.
    pub prepared: Prepared,
    /// Most tokens of a pass, and the pools' generation, that `prepared` has seen.
    seen: (usize, u64),
    pub counters: Counters,
}

impl Shared {
    /// Nothing in use.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        Ok(Shared {
            facts: Scratch::default(),
            activations: ActivationScratch::default(),
            rows: Scratch::default(),
            mask: Scratch::default(),
            history: Scratch::default(),
            argmax: Scratch::default(),
            mask_words: Vec::new(),
            mask_version: 0,
            chosen: gpu.storage("chosen tokens", u64::from(CHOSEN_PLACES) * 4)?,
            places: (0..CHOSEN_PLACES).collect(),
            logits: Vec::new(),
            token_reads: Vec::new(),
            pending: Pass::new(),
            pending_reads: Vec::new(),
            sets: lowrank::Sets::default(),
            prepared: Prepared::default(),
            seen: (0, 0),
            counters: Counters::default(),
        })
    }

    /// Queues the selections that wait for a submission.
    pub fn flush(&mut self, gpu: &Gpu) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.queue(gpu, Pass::new())
    }

    /// Queues a pass behind the selections that wait.
    fn queue(&mut self, gpu: &Gpu, pass: Pass) -> Result<()> {
        let pass = pass.after(std::mem::take(&mut self.pending));
        self.counters.dispatches += pass.dispatches();
        self.counters.submissions += 1;
        pass.submit(gpu)?;
        self.pending_reads.drain(..).for_each(|read| read.request());
        Ok(())
    }

    /// Gives the memory of adapters back that no sequence uses any more.
    pub fn free_adapters(&mut self) {
        if self.sets.prune() {
            // Bind groups keep buffers alive.
            self.prepared.forget();
        }
    }

    /// What a ticket held.
    pub fn give_back(&mut self, ticket: Ticket) {
        self.logits.extend(ticket.logits);
        self.places.extend(ticket.places);
    }

    fn take_logits(&mut self, gpu: &Gpu, elems: usize) -> Result<wgpu::Buffer> {
        let bytes = elems as u64 * 4;
        match self.logits.iter().position(|b| b.size() >= bytes) {
            Some(at) => Ok(self.logits.swap_remove(at)),
            None => {
                // The small ones would never be used again.
                self.logits.clear();
                gpu.storage("logits", bytes)
            }
        }
    }
}

/// What a batch looks like to the kernels.
struct Layout {
    facts: Facts,
    single: bool,
    longest: usize,
    /// By slot: rows of logits, first and count.
    rows: Vec<Option<(usize, usize)>>,
    total_rows: usize,
}

/// Tokens that one pass can take.
pub fn max_tokens(gpu: &Gpu, widths: &Widths) -> usize {
    ((gpu.max_binding / (4 * widths.most() as u64)) as usize).min(MAX_TOKENS)
}

/// Queues a batch; on error no state has changed.
pub fn submit(gpu: &Gpu, model: &Model, inner: &mut Inner, batch: &Batch) -> Result<Ticket> {
    for slot in &batch.slots {
        slot.cancel.check()?;
    }
    check(model, inner, batch, max_tokens(gpu, &inner.widths))?;
    inner.shared.free_adapters();
    if batch.slots.iter().any(|slot| matches!(slot.input, Input::Sampled(..))) {
        // By itself, so that the token is on its way to the host, which then prepares what follows, while the pass
        // that reads it runs.
        inner.shared.flush(gpu)?;
    }
    let mut grown = Vec::with_capacity(batch.slots.len());
    for slot in &batch.slots {
        grown.push(inner.states.grown(gpu, slot.state, count(&slot.input))?);
    }
    let layout = layout(gpu, model, inner, batch, &grown)?;
    let tokens = layout.facts.ids.len();
    let Inner { states, shared, widths, tickets, .. } = inner;
    let seen = (shared.seen.0.max(tokens), states.generation());
    if seen != shared.seen {
        // Buffers grew: bind groups of the old ones would keep them.
        shared.prepared.forget();
        shared.seen = seen;
    }
    let applied = applied(gpu, shared, states, batch, &layout)?;
    let mut widths = *widths;
    if !applied.is_empty() {
        widths.both = widths.gate_up;
    }
    let mut pass = Pass::new();
    states.copy_pages(gpu, &mut pass, &grown)?;
    let inputs = Inputs {
        tokens,
        facts: shared.facts.fill(gpu, "facts of a pass", &layout.facts.words())?,
        chosen: shared.chosen.clone(),
        single: layout.single,
        tiles: layout.facts.tiles.len(),
        longest: layout.longest,
        applied,
    };
    let parts = if layout.single { part_elems(model, tokens) } else { 0 };
    let low = lowrank::low_elems(&inputs.applied);
    let activations = shared.activations.fit(gpu, &widths, tokens, [parts, low])?;
    {
        let mut r = Recorder { gpu, prepared: &mut shared.prepared, pass: &mut pass };
        model.layers(&mut r, &activations, &inputs, states)?;
    }
    let logits = head(gpu, model, shared, &mut pass, &activations, &layout)?;
    let mut slots = Vec::with_capacity(batch.slots.len());
    let busy = || Error::Busy { what: format!("{CHOSEN_PLACES} tokens wait to be read") };
    let left = shared.places.len().checked_sub(batch.slots.len()).ok_or_else(busy)?;
    let places = shared.places[left..].to_vec();
    for ((slot, rows), place) in batch.slots.iter().zip(&layout.rows).zip(&places) {
        let mut made = ticket_slot(gpu, model, &mut pass, &logits, slot, *rows)?;
        if let (Some(masked), Some(logits), Some(row)) = (repeats(tickets, slot), &logits, made.last_row) {
            let early = (row, *place, masked);
            made.early = Some(choose_early(gpu, model, shared, &mut pass, logits, early)?);
        }
        slots.push(Some(made));
    }
    // The last look: a submitted pass cannot be taken back.
    for slot in &batch.slots {
        slot.cancel.check()?;
    }
    shared.places.truncate(left);
    shared.queue(gpu, pass)?;
    shared.counters.passes += 1;
    let ticket = Ticket { slots, places, logits, done: Signal::after_submitted(gpu) };
    for read in
        ticket.slots.iter().flatten().flat_map(|s| s.read.iter().chain(s.early.iter().map(|e| &e.read)))
    {
        read.request();
    }
    inner.states.copied += grown.iter().filter(|g| g.copies()).count() as u64;
    for (slot, grown) in batch.slots.iter().zip(grown) {
        inner.states.put(slot.state, grown.state);
    }
    Ok(ticket)
}

/// How a slot's token was chosen, if its logits' will be wanted likewise; see [`TicketSlot::repeats`].
fn repeats(tickets: &HashMap<TicketId, Ticket>, slot: &Slot) -> Option<bool> {
    match &slot.input {
        Input::Sampled(ticket, place) if slot.logits == (Logits::Last { read: false }) => {
            tickets.get(ticket)?.slots.get(*place)?.as_ref()?.repeats
        }
        _ => None,
    }
}

/// What the batch's sequences add to the weights.
fn applied(
    gpu: &Gpu,
    shared: &mut Shared,
    states: &States,
    batch: &Batch,
    layout: &Layout,
) -> Result<Vec<Applied>> {
    let mut all = Vec::new();
    for (slot, place) in batch.slots.iter().zip(&layout.facts.slots) {
        let updates = &states.get(slot.state)?.updates;
        if !updates.is_empty() {
            let sets = shared.sets.of(gpu, updates)?;
            all.push(Applied { tokens: (place.first as usize, place.count as usize), sets });
        }
    }
    Ok(all)
}

fn count(input: &Input) -> usize {
    match input {
        Input::Tokens(ids) => ids.len(),
        Input::Sampled(..) => 1,
    }
}

fn check(model: &Model, inner: &Inner, batch: &Batch, most: usize) -> Result<()> {
    if batch.slots.is_empty() {
        return Err(Error::invalid("batch", "has no slot"));
    }
    let mut states = std::collections::HashSet::new();
    let mut total = 0;
    for slot in &batch.slots {
        inner.states.get(slot.state)?;
        if !states.insert(slot.state) {
            return Err(Error::invalid("batch", format!("state {} occurs twice", slot.state.0)));
        }
        total += count(&slot.input);
        if let Input::Tokens(ids) = &slot.input {
            if ids.is_empty() {
                return Err(Error::invalid("input", "has no token"));
            }
            if let Some(id) = ids.iter().find(|id| **id as usize >= model.vocab) {
                return Err(Error::invalid(
                    "input",
                    format!("token {id} is beyond the {} rows", model.vocab),
                ));
            }
        }
    }
    if total > most {
        return Err(Error::invalid("batch", format!("{total} tokens in one pass; this device takes {most}")));
    }
    Ok(())
}

fn layout(gpu: &Gpu, model: &Model, inner: &mut Inner, batch: &Batch, grown: &[Grown]) -> Result<Layout> {
    let parts_fit = part_elems(model, batch.slots.len()) as u64 * 4 <= gpu.max_binding;
    let single = parts_fit && batch.slots.iter().all(|slot| count(&slot.input) == 1);
    let mut all = Layout { facts: Facts::default(), single, longest: 0, rows: Vec::new(), total_rows: 0 };
    for ((slot, grown), number) in batch.slots.iter().zip(grown).zip(0..) {
        let before = inner.states.get(slot.state)?;
        let (first, count) = (all.facts.ids.len(), count(&slot.input));
        let window = |entry: &Option<super::pool::Entry>| entry.as_ref().map_or(0, |e| e.index());
        all.facts.slots.push(ConvSlot {
            first: first as u32,
            count: count as u32,
            window_in: window(&before.window),
            window_out: window(&grown.state.window),
        });
        let table = all.facts.table.len() as u32;
        for index in 0..count as u32 {
            let position = before.len as u32 + index;
            all.facts.tokens.push(Token { position, table, slot: number, index });
        }
        all.longest = all.longest.max(grown.state.len);
        all.facts.table.extend(grown.state.pages.iter().map(|page| page.index()));
        if !single {
            let each = tile_tokens(model);
            let tile = |at: usize| Tile { first: (first + at) as u32, count: each.min(count - at) as u32 };
            all.facts.tiles.extend((0..count).step_by(each).map(tile));
        }
        let rows = match slot.logits {
            Logits::None => 0,
            Logits::Last { .. } => 1,
            Logits::All => count,
        };
        all.rows.push((rows > 0).then_some((all.total_rows, rows)));
        all.total_rows += rows;
        push_ids(gpu, inner, &slot.input, &mut all.facts.ids)?;
    }
    for frequencies in &model.frequencies {
        let mut turns = Vec::with_capacity(all.facts.tokens.len() * frequencies.len());
        for token in &all.facts.tokens {
            turns.extend(frequencies.iter().map(|f| {
                let (sin, cos) = lean_kernels::math::sin_cos(token.position as f32 * f);
                [cos, sin]
            }));
        }
        all.facts.angles.push(turns);
    }
    Ok(all)
}

fn push_ids(gpu: &Gpu, inner: &mut Inner, input: &Input, ids: &mut Vec<u32>) -> Result<()> {
    let (ticket, slot) = match input {
        Input::Tokens(tokens) => {
            ids.extend(tokens);
            return Ok(());
        }
        Input::Sampled(ticket, slot) => (ticket, *slot),
    };
    let gone = || Error::invalid("input", format!("ticket {} is over", ticket.0));
    let ticket = inner.tickets.get_mut(ticket).ok_or_else(gone)?;
    let place = ticket.places.get(slot).copied();
    let state = ticket.slot(slot)?;
    if matches!(state.token, Choice::OnHost(..)) {
        // A choice that is up to the host has to be made before the pass that reads it can be queued.
        inner.shared.flush(gpu)?;
        state.token.settle(gpu)?;
    }
    match (&state.token, place) {
        (Choice::Known(id), _) => ids.push(*id),
        (Choice::OnDevice(_), Some(place)) => ids.push(CHOSEN | place),
        _ => return Err(Error::invalid("input", format!("slot {slot} has no selection yet"))),
    }
    Ok(())
}

/// Logits of the wanted rows, `[total_rows][vocab]`.
fn head(
    gpu: &Gpu,
    model: &Model,
    shared: &mut Shared,
    pass: &mut Pass,
    activations: &Activations,
    layout: &Layout,
) -> Result<Option<wgpu::Buffer>> {
    let rows = layout.total_rows;
    if rows == 0 {
        return Ok(None);
    }
    let logits = shared.take_logits(gpu, rows * model.vocab)?;
    let mut source = activations.h.clone();
    if rows < layout.facts.ids.len() {
        source = shared.rows.fit(gpu, "rows of the head", rows * model.hidden)?;
        let row_bytes = (model.hidden * 4) as u64;
        for (slot, range) in layout.facts.slots.iter().zip(&layout.rows) {
            if let Some((first, count)) = *range {
                let from = u64::from(slot.first) + u64::from(slot.count) - count as u64;
                let bytes = count as u64 * row_bytes;
                pass.copy(&activations.h, from * row_bytes, &source, first as u64 * row_bytes, bytes);
            }
        }
    }
    let mut r = Recorder { gpu, prepared: &mut shared.prepared, pass };
    model.head(&mut r, &source, activations, &logits, rows)?;
    Ok(Some(logits))
}

fn ticket_slot(
    gpu: &Gpu,
    model: &Model,
    pass: &mut Pass,
    logits: &Option<wgpu::Buffer>,
    slot: &Slot,
    rows: Option<(usize, usize)>,
) -> Result<TicketSlot> {
    let wanted = matches!(slot.logits, Logits::Last { read: true } | Logits::All);
    let mut read = None;
    if let (true, Some(logits), Some((first, count))) = (wanted, logits, rows) {
        let row_bytes = (model.vocab * 4) as u64;
        let readback = Readback::new(gpu, "logits on their way to the host", count as u64 * row_bytes)?;
        readback.copy(pass, logits, first as u64 * row_bytes, 0, count as u64 * row_bytes);
        read = Some(readback);
    }
    let last_row = rows.map(|(first, count)| first + count - 1);
    Ok(TicketSlot { last_row, read, token: Choice::Unselected, repeats: None, early: None })
}
